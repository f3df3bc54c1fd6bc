// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/history_recorder.h"

#include <array>
#include <mutex>

#include "base/assert.h"
#include "base/error.h"
#include "base/system_time.h"
#include "base/text.h"
#include "replay/trace_comment.h"
#include "replay/trace_header.h"

namespace cachalot {
namespace {

// Contexts of the history that are explained.
constexpr size_t kMostRecordedContexts = 1000000;

}  // namespace

std::vector<LiveLine> live_lines(const Snapshot& rows, bool with_contexts) {
  const int64_t now = microseconds_since_1970();
  std::vector<LiveLine> live;
  for (const SegmentRow& segment : rows.segments) {
    for (size_t i = 0; i < segment.block_count; i++) {
      const BlockRow& block = rows.blocks[segment.first_block + i];
      if (block.state == BlockState::kInactive) continue;
      live.push_back({.line = {.action = Action::kLiveAtBegin,
                               .address = block.address,
                               .size = block.requested,
                               .stream = segment.stream,
                               .device = static_cast<uint64_t>(segment.device),
                               .pool = segment.pool,
                               .time_us = now,
                               .context = with_contexts ? block.context : kNoContext,
                               .detail = {.freed_on = segment.stream}},
                      .is_freed = block.state == BlockState::kPendingFree});
    }
  }
  return live;
}

HistoryRecorder::HistoryRecorder(RecorderOptions options) : options_(std::move(options)) {
  const std::string header = header_text(options_.header.start_us);
  if (options_.path.empty()) {
    buffer_ = std::make_unique<LineBuffer>(options_.write);
    append(header);
  } else {
    files_ = std::make_unique<RecordingFiles>(options_.path, options_.keep, header);
  }
}

std::string HistoryRecorder::header_text(int64_t start_us) const {
  TraceHeader header = options_.header;
  header.format = 2;
  header.warm_up = 0;
  header.start_us = start_us;
  return format_trace_header(header);
}

void HistoryRecorder::begin(const Snapshot& rows) {
  const std::lock_guard guard(lock_);
  const auto live = live_lines(rows, options_.contexts == RecordedContexts::kHistory);
  for_each_live_line(live, [this](const EventLine& line) { append_event(line); });
}

void HistoryRecorder::see(const TraceEntry& entry) noexcept {
  const std::lock_guard guard(lock_);
  if (has_ended_) return;
  if (has_given_up_) {
    events_++;
    given_up_++;
    return;
  }
  try {
    write(entry);
  } catch (const std::exception& error) {
    has_given_up_ = true;
    given_up_++;
    warn(error.what());
  }
}

void HistoryRecorder::write(const TraceEntry& entry) {
  EventLine line = line_of_entry(entry);
  line.context = context_of(entry);
  append_event(line);
  if (files_ != nullptr && files_->is_full()) begin_next_file(entry.time_us);
}

void HistoryRecorder::append_event(const EventLine& line) {
  events_++;
  if (files_ != nullptr && files_->is_bounded()) note_live(line);
  if (line.context != kNoContext && options_.contexts == RecordedContexts::kHistory &&
      told_.size() + untold_.size() < kMostRecordedContexts && !told_.contains(line.context))
    untold_.insert(line.context);
  append_line(line);
}

void HistoryRecorder::append_line(const EventLine& line) {
  std::array<char, kMaxEventLine> text;
  const char* const end = write_event_line(text.data(), line);
  append({text.data(), static_cast<size_t>(end - text.data())});
}

void HistoryRecorder::append(std::string_view lines) {
  const bool is_written = files_ != nullptr ? files_->append(lines) : buffer_->append(lines);
  if (!is_written) warn("it cannot be written");
}

// A program goes on without its recording, so it is told once at most.
void HistoryRecorder::warn(const std::string& why) noexcept {
  if (std::exchange(has_warned_, true) || !options_.warn) return;
  try {
    options_.warn("the recording" + (files_ != nullptr ? " " + files_->path() : "") +
                  " loses events: " + why);
  } catch (...) {
  }
}

// ---- Contexts

ContextId HistoryRecorder::context_of(const TraceEntry& entry) {
  switch (options_.contexts) {
    case RecordedContexts::kLabels:
      return label_of_thread();
    case RecordedContexts::kHistory:
      return entry.context;
    case RecordedContexts::kNone:
      break;
  }
  return kNoContext;
}

// An event is seen on the thread that makes it.
ContextId HistoryRecorder::label_of_thread() {
  const ContextId label = labels_.of_thread();
  tell_label(label);
  return label;
}

void HistoryRecorder::tell_label(ContextId label) {
  if (label == kNoContext) return;
  if (const std::string line = labels_.line_to_write(label); !line.empty()) append(line);
}

// They are explained without a lock, since that may run the caller's code.
void HistoryRecorder::tell_contexts() {
  std::unordered_set<ContextId> contexts;
  {
    const std::lock_guard guard(lock_);
    contexts = std::exchange(untold_, {});
    told_.insert(contexts.begin(), contexts.end());
  }
  if (!options_.describe) return;
  for (const ContextId context : contexts) {
    const std::string line = format_label_comment(context, options_.describe(context));
    const std::lock_guard guard(lock_);
    if (!has_ended_) append(line);
  }
}

// ---- Files

void HistoryRecorder::note_live(const EventLine& line) {
  const BlockKey key{line.device, line.address};
  if (line.action == Action::kAlloc || line.action == Action::kLiveAtBegin) {
    EventLine live = line;
    live.action = Action::kLiveAtBegin;
    live_.insert_or_assign(key, LiveLine{live, false});
  } else if (line.action == Action::kFreeCompleted) {
    live_.erase(key);
  } else if (line.action == Action::kFreeRequested) {
    if (const auto found = live_.find(key); found != live_.end()) found->second.is_freed = true;
  }
}

void HistoryRecorder::begin_next_file(int64_t now_us) {
  labels_.begin_file();
  untold_.merge(std::exchange(told_, {}));
  std::vector<LiveLine> live;
  live.reserve(live_.size());
  for (const auto& [key, block] : live_) {
    live.push_back(block);
    live.back().line.time_us = now_us;
  }
  files_->begin_next_file(header_text(now_us), [&] {
    for_each_live_line(live, [this](const EventLine& line) {
      if (options_.contexts == RecordedContexts::kLabels) tell_label(line.context);
      append_line(line);
    });
  });
}

void HistoryRecorder::flush() {
  tell_contexts();
  const std::lock_guard guard(lock_);
  if (buffer_ != nullptr) buffer_->flush();
  if (lost() != 0)
    throw Error(Status::kIo,
                format("%llu events are lost", static_cast<unsigned long long>(lost())));
}

void HistoryRecorder::finish() noexcept {
  try {
    tell_contexts();
  } catch (...) {
    // Without the texts the recording is as good for a replay.
  }
  const std::lock_guard guard(lock_);
  if (std::exchange(has_ended_, true)) return;
  EventLine line{};
  line.action = Action::kRecordingEnd;
  line.size = lost();
  line.time_us = microseconds_since_1970();
  std::array<char, kMaxEventLine> text;
  const char* const end = write_event_line(text.data(), line);
  const std::string_view last{text.data(), static_cast<size_t>(end - text.data())};
  if (files_ != nullptr) {
    files_->close(last);
  } else {
    buffer_->append(last);
    buffer_->flush();
  }
}

uint64_t HistoryRecorder::lost() const {
  return given_up_ + (files_ != nullptr ? files_->lost() : buffer_->lost());
}

RecorderStats HistoryRecorder::stats() const {
  const std::lock_guard guard(lock_);
  return {.events = events_,
          .lost = lost(),
          .bytes = files_ != nullptr ? files_->bytes() : buffer_->bytes(),
          .path = files_ != nullptr ? files_->path() : ""};
}

}  // namespace cachalot
