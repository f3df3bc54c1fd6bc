// SPDX-License-Identifier: MIT OR Apache-2.0
#include "torch_snapshot.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "failure.h"
#include "numbers.h"
#include "pickle.h"
#include "recorded_history.h"
#include "trace_text.h"

namespace cachalot::cli {
namespace {

// A dictionary of PyTorch's has a dozen.
constexpr size_t kMostKeys = 64;
// How much longer the texts of all contexts may be than the pickle, which writes equal frames once.
constexpr size_t kMostTextPerByte = 64;
constexpr size_t kLeastTextLimit = size_t{1} << 20;
// Of one context: a line of a trace has room for twice as much.
constexpr size_t kMostContextText = size_t{1} << 18;

// Where in a pickle a reader looks. No list is longer than the pickle, but one may stand in many places; so the
// values that are looked at are counted.
class Walk {
 public:
  explicit Walk(const Pickle& pickle) : pickle_(pickle), left_(pickle.size()) {}

  std::span<const PickleValue> list(const PickleValue& value, const char* name) {
    if (!value.is_sequence())
      throw Failure("no snapshot of PyTorch's: " + std::string(name) + " is no list");
    return counted(pickle_.items(value));
  }

  bool is_empty(const PickleValue& list) const { return pickle_.items(list).empty(); }

  // Calls member(key, value) for each.
  template <class Member>
  void dict(const PickleValue& value, const char* name, Member member) {
    if (!value.is_dict())
      throw Failure("no snapshot of PyTorch's: " + std::string(name) + " is no dictionary");
    const auto items = counted(pickle_.items(value));
    if (items.size() > 2 * kMostKeys)
      throw Failure("no snapshot of PyTorch's: " + std::string(name) + " has " +
                    grouped(uint64_t{items.size() / 2}) + " keys");
    for (size_t i = 0; i < items.size(); i += 2) member(items[i].as_text(), items[i + 1]);
  }

 private:
  std::span<const PickleValue> counted(std::span<const PickleValue> items) {
    if (items.size() > left_)
      throw Failure("no snapshot of PyTorch's: it has more parts than bytes");
    left_ -= items.size();
    return items;
  }

  const Pickle& pickle_;
  size_t left_;
};

uint64_t number_of(const PickleValue& value, std::string_view key) {
  const auto number = value.as_number();
  if (!number)
    throw Failure("no snapshot of PyTorch's: " + std::string(key) + " is no number from 0 on");
  return *number;
}

// Each list of frames as a context. PyTorch's snapshots write equal ones once, most often.
class ContextTable {
 public:
  ContextTable(Walk* walk, size_t pickle_size)
      : walk_(*walk), text_left_(std::max(kLeastTextLimit, pickle_size * kMostTextPerByte)) {}

  // 0: none. A stack without frames is one too.
  uint64_t context_of(const PickleValue& frames) {
    if (!frames.is_sequence()) return 0;
    const auto [known, is_new] = by_list_.try_emplace(frames.container, 0);
    if (is_new) known->second = read(frames);
    return known->second;
  }

  std::vector<std::string> take() { return std::move(texts_); }

 private:
  uint64_t read(const PickleValue& frames) {
    std::string text;
    for (const PickleValue& frame : walk_.list(frames, "frames")) {
      if (!text.empty()) text += '\n';
      append_frame(frame, &text);
    }
    const auto [known, is_new] = by_text_.try_emplace(text, texts_.size() + 1);
    if (is_new) {
      if (text.size() > text_left_)
        throw Failure("the snapshot's stacks are more than 64 times as long as its file");
      text_left_ -= text.size();
      texts_.push_back(std::move(text));
    }
    return known->second;
  }

  // "FILE:LINE:FUNCTION", or the name alone where there is no file.
  void append_frame(const PickleValue& frame, std::string* text) {
    std::string_view name;
    std::string_view file;
    uint64_t line = 0;
    walk_.dict(frame, "a frame", [&](std::string_view key, const PickleValue& value) {
      if (key == "name") name = value.as_text();
      if (key == "filename") file = value.as_text();
      if (key == "line") line = value.as_number().value_or(0);
    });
    require_room(text->size() + name.size() + file.size());
    if (!file.empty()) append_line_text(file, text);
    if (!file.empty()) *text += ":" + std::to_string(line) + ":";
    append_line_text(name, text);
  }

  static void require_room(size_t size) {
    if (size > kMostContextText)
      throw Failure("a stack of more than " + grouped(uint64_t{kMostContextText}) + " bytes");
  }

  static void append_line_text(std::string_view part, std::string* text) {
    for (const char c : part) *text += c == '\n' ? ' ' : c;
  }

  Walk& walk_;
  size_t text_left_;
  std::unordered_map<size_t, uint64_t> by_list_;
  std::unordered_map<std::string, uint64_t> by_text_;
  std::vector<std::string> texts_;
};

class SnapshotReader {
 public:
  explicit SnapshotReader(const Pickle& pickle)
      : pickle_(pickle), walk_(pickle), contexts_(&walk_, pickle.size()) {}

  RecordedRun read() {
    const PickleValue& root = pickle_.root();
    if (root.is_sequence()) {
      read_segments(root);  // memory_snapshot()
    } else {
      read_root(root);
    }
    run_.head.source = "a snapshot of PyTorch's";
    run_.head.torch = release();
    run_.contexts = contexts_.take();
    return std::move(run_);
  }

 private:
  void read_root(const PickleValue& root) {
    bool has_segments = false;
    walk_.dict(root, "it", [&](std::string_view key, const PickleValue& value) {
      has_segments |= key == "segments";
      if (key == "segments") read_segments(value);
      if (key == "device_traces") read_histories(value);
      if (key == "allocator_settings" && value.is_dict()) read_settings(value);
    });
    if (!has_segments) throw Failure("no snapshot of PyTorch's: it has no segments");
  }

  RecordedDevice& device(uint64_t index) {
    if (index >= kMostDevices)
      throw Failure("no snapshot of PyTorch's: a device with the number " + grouped(index));
    if (index >= run_.devices.size()) run_.devices.resize(index + 1);
    return run_.devices[index];
  }

  void read_segments(const PickleValue& segments) {
    for (const PickleValue& segment : walk_.list(segments, "segments")) read_segment(segment);
  }

  void read_segment(const PickleValue& segment) {
    uint64_t device_index = 0;
    RecordedRange range;
    const PickleValue* blocks = nullptr;
    walk_.dict(segment, "a segment", [&](std::string_view key, const PickleValue& value) {
      if (key == "device") device_index = number_of(value, key);
      if (key == "address") range.address = number_of(value, key);
      if (key == "total_size") range.size = number_of(value, key);
      if (key == "stream") range.stream = number_of(value, key);
      if (key == "segment_pool_id") range.pool = pool_of(value);
      if (key == "is_expandable") range.is_expandable = value.is_true();
      if (key == "blocks") blocks = &value;
    });
    if (range.size > UINT64_MAX - range.address)
      throw Failure("no snapshot of PyTorch's: a segment of " + grouped(range.size) + " bytes");
    RecordedDevice& of = device(device_index);
    of.ranges.push_back(range);
    if (blocks != nullptr) read_blocks(*blocks, range, &of);
  }

  // Before PyTorch 2.1 a block does not tell its address: it begins where the one before it ends.
  void read_blocks(const PickleValue& blocks, const RecordedRange& range, RecordedDevice* of) {
    uint64_t next = range.address;
    for (const PickleValue& value : walk_.list(blocks, "blocks")) {
      RecordedBlock block{.address = next, .stream = range.stream, .pool = range.pool};
      uint64_t size = 0;
      std::optional<uint64_t> requested;
      std::string_view state;
      walk_.dict(value, "a block", [&](std::string_view key, const PickleValue& member) {
        if (key == "address") block.address = number_of(member, key);
        if (key == "size") size = number_of(member, key);
        if (key == "requested_size") requested = number_of(member, key);
        if (key == "state") state = member.as_text();
        if (key == "frames" && !walk_.is_empty(member))
          block.context = contexts_.context_of(member);
      });
      next = block.address + size;
      if (!state.starts_with("active")) continue;
      block.requested = requested.value_or(size);
      block.is_freed = state != "active_allocated";
      of->blocks.push_back(block);
    }
  }

  cachalot_pool_id pool_of(const PickleValue& value) {
    const auto items = walk_.list(value, "a pool's id");
    if (items.size() != 2) throw Failure("no snapshot of PyTorch's: a pool's id is no pair");
    const cachalot_pool_id pool{number_of(items[0], "a pool's id"),
                                number_of(items[1], "a pool's id")};
    if (pool.first != 0 && pool.second != 0)
      throw Failure("no snapshot of PyTorch's: a pool's id has two numbers that are not 0");
    return pool;
  }

  void read_histories(const PickleValue& traces) {
    uint64_t index = 0;
    for (const PickleValue& history : walk_.list(traces, "device_traces")) {
      RecordedDevice& of = device(index++);
      for (const PickleValue& entry : walk_.list(history, "a device's history"))
        read_entry(entry, static_cast<int32_t>(index - 1), &of);
    }
  }

  void read_entry(const PickleValue& value, int32_t device_index, RecordedDevice* of) {
    RecordedEvent entry{.event = blank_event(CACHALOT_ACTION_ALLOC)};
    cachalot_trace_event& event = entry.event;
    event.device = device_index;
    std::string_view name;
    walk_.dict(value, "an entry of the history",
               [&](std::string_view key, const PickleValue& member) {
                 if (key == "action") name = member.as_text();
                 if (key == "addr" || key == "device_free") event.address = number_of(member, key);
                 if (key == "size") event.size = number_of(member, key);
                 if (key == "stream") event.stream = number_of(member, key);
                 if (key == "time_us") event.time_us = time_of(member);
                 if (key == "frames") event.context = contexts_.context_of(member);
                 if (key == "pool_id") event.pool = pool_of(member);
                 if (key == "pool_id") entry.has_pool = true;
               });
    const std::optional<int32_t> action = action_of(name);
    if (!action) return;  // of a release that is newer
    event.action = *action;
    event.freed_on = event.stream;
    entries_have_pools_ = entries_have_pools_.value_or(false) || entry.has_pool;
    of->events.push_back(entry);
  }

  static int64_t time_of(const PickleValue& value) {
    const auto time = value.as_number();
    return time && *time <= static_cast<uint64_t>(INT64_MAX) ? static_cast<int64_t>(*time) : -1;
  }

  static std::optional<int32_t> action_of(std::string_view name) {
    for (int32_t action = CACHALOT_ACTION_ALLOC; action <= CACHALOT_ACTION_ANNOTATE; action++)
      if (name == cachalot_action_name(action)) return action;
    return std::nullopt;
  }

  // The release whose decisions these are, as far as the form of the entries tells.
  std::string release() const {
    if (!entries_have_pools_) return "";
    return *entries_have_pools_ ? "2.15" : "2.11";
  }

  void read_settings(const PickleValue& settings) {
    walk_.dict(settings, "allocator_settings", [&](std::string_view key, const PickleValue& value) {
      if (key == "PYTORCH_CUDA_ALLOC_CONF" || key == "PYTORCH_ALLOC_CONF")
        run_.head.config = value.as_text();
    });
  }

  const Pickle& pickle_;
  Walk walk_;
  ContextTable contexts_;
  RecordedRun run_;
  std::optional<bool> entries_have_pools_;  // none: there are no entries
};

}  // namespace

std::string trace_of_snapshot(std::string bytes) {
  const Pickle pickle(std::move(bytes));
  return trace_of(SnapshotReader(pickle).read());
}

}  // namespace cachalot::cli
