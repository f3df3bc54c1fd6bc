// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/trace_file.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "replay/block_linker.h"
#include "replay/event_line.h"
#include "replay/trace_comment.h"
#include "replay/trace_header.h"

namespace cachalot {
namespace {

// Also the longest line: a header has some thousand bytes.
constexpr size_t kBufferSize = 1 * MiB;
constexpr size_t kQuotedBytes = 60;

std::string quote(std::string_view line) {
  std::string shown(line.substr(0, kQuotedBytes));
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';
  return "'" + shown + (line.size() > kQuotedBytes ? "...'" : "'");
}

// Gives the input in pieces that end in a line break.
class WholeLines {
 public:
  explicit WholeLines(const ReadBytes& read) : read_(read), buffer_(kBufferSize + 1) {}

  // Empty at the end, or if the next line is too long. Good until the next call.
  std::string_view next() {
    std::memmove(buffer_.data(), buffer_.data() + given_, held_ - given_);
    held_ -= given_;
    given_ = 0;
    while (given_ == 0 && !has_ended_ && !is_next_too_long()) read_more();
    return {buffer_.data(), given_};
  }

  bool is_next_too_long() const { return given_ == 0 && held_ == kBufferSize; }
  // What stands behind the last line break is left out, unless it has come already.
  void drop_last_if_cut() { drops_cut_line_ = true; }
  // pre: the next line is too long.
  char first_of_next() const { return buffer_.front(); }

 private:
  void read_more() {
    const size_t count = read_(buffer_.data() + held_, kBufferSize - held_);
    CACHALOT_ASSERT(1, count <= kBufferSize - held_);
    held_ += count;
    if (count > 0) {
      given_ = end_of_last_line(count);
    } else {
      has_ended_ = true;
      end_last_line();
    }
  }

  size_t end_of_last_line(size_t searched) const {
    const char* const begin = buffer_.data() + held_ - searched;
    const void* const found = memrchr(begin, '\n', searched);
    if (found == nullptr) return 0;
    return static_cast<size_t>(static_cast<const char*>(found) - buffer_.data()) + 1;
  }

  // What stands behind the last line break gets one.
  void end_last_line() {
    CACHALOT_ASSERT(1, held_ < buffer_.size());
    if (drops_cut_line_) held_ = 0;
    if (held_ > 0) buffer_[held_++] = '\n';
    given_ = held_;
  }

  const ReadBytes& read_;
  std::vector<char> buffer_;
  size_t held_ = 0;
  size_t given_ = 0;
  bool has_ended_ = false;
  bool drops_cut_line_ = false;
};

class TraceReader {
 public:
  explicit TraceReader(const ReadBytes& read) : lines_(read) {}

  Trace read() {
    std::string_view text = next_lines();
    const size_t header_end = text.find('\n');
    trace_.header = parse_trace_header(text.substr(0, header_end));
    if (trace_.header.format >= 2) {
      linker_.let_contexts_end();
      lines_.drop_last_if_cut();
    }
    if (!text.empty()) text.remove_prefix(header_end + 1);
    while (read_events(text)) {
      text = next_lines();
      if (text.empty()) break;
    }
    linker_.finish(&trace_);
    return std::move(trace_);
  }

 private:
  std::string_view next_lines() {
    const std::string_view text = lines_.next();
    if (lines_.is_next_too_long() && !ends_file(lines_.first_of_next()))
      throw Error(Status::kIo, current_line() + format(": longer than %zu bytes", kBufferSize));
    return text;
  }

  std::string current_line() const {
    return line_name(has_header_ ? trace_.line_of(trace_.events.size()) : 1);
  }

  // A recorder leaves room behind the last line.
  bool ends_file(char first_of_line) const {
    return first_of_line == '\0' && trace_.header.format >= 2;
  }

  // The room behind the last line, or a line that a recorder was writing while the file was read.
  bool is_unfinished(std::string_view line) const {
    return line.find('\0') != std::string_view::npos && trace_.header.format >= 2;
  }

  // False: the file ends here. pre: whole lines.
  bool read_events(std::string_view text) {
    CACHALOT_ASSERT(1, text.empty() || text.back() == '\n');
    has_header_ = true;
    const char* const end = text.data() + text.size();
    EventLine event;
    for (const char* at = text.data(); at != end;) {
      if (*at == '#' && trace_.header.format >= 2) {
        const std::string_view line = line_at(at, end);
        if (is_unfinished(line)) return false;
        read_comment(line);
        at += line.size() + 1;
        continue;
      }
      const char* const next = parse_event_line(at, trace_.header.format, &event);
      if (next == nullptr) {
        const std::string_view line = line_at(at, end);
        if (is_unfinished(line)) return false;
        refuse(line, "not an event");
      }
      add(event);
      at = next;
    }
    return true;
  }

  // Without its break.
  static std::string_view line_at(const char* at, const char* end) {
    const std::string_view text(at, static_cast<size_t>(end - at));
    return text.substr(0, text.find('\n'));
  }

  void read_comment(std::string_view line) {
    if (!parse_trace_comment(line, &trace_)) refuse(line, "neither an event nor a comment");
    trace_.comments.push_back(static_cast<uint32_t>(trace_.events.size()));
  }

  void add(const EventLine& line) {
    if (line.device >= kMaxTraceDevices) fail("no such device");
    if (trace_.events.size() >= kMaxTraceEvents) fail("too many events");
    const auto index = static_cast<uint32_t>(trace_.events.size());
    trace_.device_count = std::max(trace_.device_count, static_cast<int>(line.device) + 1);
    trace_.events.push_back({line.address, line.size, line.stream, line.time_us, line.context,
                             static_cast<uint8_t>(line.action), static_cast<uint8_t>(line.device),
                             pool_index(line.pool), kNoBlock});
    trace_.has_segments |=
        line.action == Action::kSegmentAlloc || line.action == Action::kSegmentMap;
    if (trace_.header.format >= 2) trace_.details.push_back(line.detail);
    linker_.link(&trace_.events.back(), index);
  }

  // Events of one pool come together, so the last one is tried first.
  uint16_t pool_index(PoolId pool) {
    if (trace_.pools[last_pool_] != pool) last_pool_ = find_pool(pool);
    return last_pool_;
  }

  uint16_t find_pool(PoolId pool) {
    const auto next = static_cast<uint16_t>(trace_.pools.size());
    const auto [found, is_new] = pool_indexes_.try_emplace(pool, next);
    if (is_new) {
      if (trace_.pools.size() >= kMaxTracePools) fail("too many pools");
      trace_.pools.push_back(pool);
    }
    return found->second;
  }

  [[noreturn]] void refuse(std::string_view line, const char* what) const {
    fail(std::string(what).append(" ").append(quote(line)));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Status::kIo, current_line() + ": " + what);
  }

  WholeLines lines_;
  Trace trace_;
  BlockLinker linker_;
  bool has_header_ = false;
  std::map<PoolId, uint16_t> pool_indexes_{{PoolId{}, uint16_t{0}}};
  uint16_t last_pool_ = 0;
};

// Entries of all devices by time. Those of one device stay in order, also where its clock was set
// back.
class MergedRings {
 public:
  explicit MergedRings(const std::vector<std::vector<TraceEntry>>& rings)
      : rings_(rings), positions_(rings.size(), 0) {}

  // Null at the end.
  const TraceEntry* next() {
    size_t chosen = rings_.size();
    for (size_t i = 0; i < rings_.size(); i++)
      if (head(i) && (chosen == rings_.size() || head(i)->time_us < head(chosen)->time_us))
        chosen = i;
    return chosen < rings_.size() ? &rings_[chosen][positions_[chosen]++] : nullptr;
  }

 private:
  const TraceEntry* head(size_t i) const {
    return positions_[i] < rings_[i].size() ? &rings_[i][positions_[i]] : nullptr;
  }

  const std::vector<std::vector<TraceEntry>>& rings_;
  std::vector<size_t> positions_;
};

}  // namespace

Trace read_trace(const ReadBytes& read) { return TraceReader(read).read(); }

void write_trace(const TraceHeader& header, const std::vector<std::vector<TraceEntry>>& rings,
                 const WriteBytes& write) {
  std::string text = format_trace_header(header);
  MergedRings entries(rings);
  while (const TraceEntry* const entry = entries.next()) {
    append_event_line(&text, line_of_entry(*entry));
    if (text.size() < kBufferSize) continue;
    write(text);
    text.clear();
  }
  write(text);
}

}  // namespace cachalot
