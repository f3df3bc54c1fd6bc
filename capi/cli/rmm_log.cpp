// SPDX-License-Identifier: MIT OR Apache-2.0
#include "rmm_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "failure.h"
#include "numbers.h"
#include "recorded_history.h"
#include "trace_text.h"

namespace cachalot::cli {
namespace {

constexpr int64_t kHour = int64_t{3600} * 1000000;  // microseconds
constexpr int64_t kDay = 24 * kHour;
constexpr uint64_t kLegacyStream = 1;  // a name of stream 0
constexpr uint64_t kPerThreadStream = 2;
constexpr uint64_t kPerThreadMark = uint64_t{1} << 63;
constexpr size_t kFields = 6;
constexpr size_t kQuotedBytes = 60;

using Fields = std::array<std::string_view, kFields>;

// The piece of the text up to the separator, which goes too.
std::string_view take_until(char separator, std::string_view* text) {
  const size_t end = std::min(text->find(separator), text->size());
  const std::string_view piece = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return piece;
}

std::optional<uint64_t> parse_number(std::string_view text, int base) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, number, base);
  return problem == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

// "0x7f00", or "(nil)".
std::optional<uint64_t> parse_pointer(std::string_view text) {
  if (text == "(nil)") return 0;
  if (text.starts_with("0x")) text.remove_prefix(2);
  return parse_number(text, 16);
}

// "23:59:59.123456" as microseconds; older releases have a colon before the last part.
std::optional<int64_t> parse_time(std::string_view text) {
  const auto hours = parse_number(take_until(':', &text), 10);
  const auto minutes = parse_number(take_until(':', &text), 10);
  const size_t point = text.find_first_of(".:");
  if (point == std::string_view::npos) return std::nullopt;
  const auto seconds = parse_number(text.substr(0, point), 10);
  const auto micros = parse_number(text.substr(point + 1), 10);
  const bool is_time = hours && minutes && seconds && micros && *hours < 24 && *minutes < 60 &&
                       *seconds < 61 && *micros < 1000000;
  if (!is_time) return std::nullopt;
  return static_cast<int64_t>(((*hours * 60 + *minutes) * 60 + *seconds) * 1000000 + *micros);
}

// Clock times one after another as times since the midnight before the first. Threads may come a little out of turn.
class ClockTimes {
 public:
  int64_t since_first_midnight(int64_t of_day) {
    int64_t time = of_day + day_ * kDay;
    if (last_ && time < *last_ - 12 * kHour) {
      day_++;
      time += kDay;
    } else if (last_ && time > *last_ + 12 * kHour && day_ > 0) {
      return time - kDay;
    }
    last_ = time;
    return time;
  }

 private:
  int64_t day_ = 0;
  std::optional<int64_t> last_;
};

class RmmReader {
 public:
  std::string read(std::string_view text) {
    take_until('\n', &text);  // the header
    for (size_t line = 2; !text.empty(); line++) {
      const bool is_whole = text.find('\n') != std::string_view::npos;
      std::string_view row = take_until('\n', &text);
      if (row.ends_with('\r')) row.remove_suffix(1);
      // A program that was killed may leave half a line.
      if (!add(row) && is_whole) refuse(row, line);
    }
    RecordedRun run;
    run.head.source = "a log of RMM's";
    run.devices.push_back(std::move(device_));
    return trace_of(std::move(run));
  }

 private:
  [[noreturn]] static void refuse(std::string_view row, size_t line) {
    std::string shown(row.substr(0, kQuotedBytes));
    for (char& c : shown)
      if (c < ' ' || c > '~') c = '?';
    throw Failure("line " + grouped(uint64_t{line}) + ": not a line of RMM's log '" + shown + "'");
  }

  // False: it is no row.
  bool add(std::string_view row) {
    if (static_cast<size_t>(std::count(row.begin(), row.end(), ',')) != kFields - 1) return false;
    Fields fields;
    for (std::string_view& field : fields) field = take_until(',', &row);
    const auto& [thread_text, time_text, action, pointer_text, size_text, stream_text] = fields;
    const auto thread = parse_number(thread_text, 10);
    const auto time = parse_time(time_text);
    const auto pointer = parse_pointer(pointer_text);
    const auto size = parse_number(size_text, 10);
    const auto stream = parse_pointer(stream_text);
    if (!thread || !time || !pointer || !size || !stream) return false;
    cachalot_trace_event event = blank_event(CACHALOT_ACTION_ALLOC);
    event.address = *pointer;
    event.size = *size;
    event.stream = event.freed_on = stream_of(*stream, *thread);
    event.thread = *thread;
    event.time_us = times_.since_first_midnight(*time);
    return put(action, event);
  }

  static uint64_t stream_of(uint64_t handle, uint64_t thread) {
    if (handle == kLegacyStream) return 0;
    return handle == kPerThreadStream ? kPerThreadMark + thread % kPerThreadMark : handle;
  }

  bool put(std::string_view action, const cachalot_trace_event& event) {
    const bool is_block = event.address != 0;  // nothing is handed out for no bytes
    if (action == "allocate") {
      if (is_block) put(CACHALOT_ACTION_ALLOC, event);
    } else if (action == "free") {
      if (is_block) put(CACHALOT_ACTION_FREE_REQUESTED, event);
      if (is_block) put(CACHALOT_ACTION_FREE_COMPLETED, event);
    } else if (action == "allocate failure") {
      put(CACHALOT_ACTION_OOM, event);
    } else {
      return false;
    }
    return true;
  }

  void put(cachalot_action action, cachalot_trace_event event) {
    event.action = action;
    device_.events.push_back({.event = event, .has_pool = true});
  }

  ClockTimes times_;
  RecordedDevice device_;
};

}  // namespace

std::string trace_of_rmm_log(std::string_view text) { return RmmReader().read(text); }

}  // namespace cachalot::cli
