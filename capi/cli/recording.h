// SPDX-License-Identifier: MIT OR Apache-2.0
// What a recording of a program tells: its calls, what they took, and what memory it had.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cachalot/cachalot.h"

namespace cachalot::cli {

std::vector<cachalot_trace_event> events_of(const cachalot_trace* trace);

// Requests that `cachalot run` would serve: cuMemAlloc.
bool is_served(const cachalot_trace_event& event);

// Calls of one kind.
struct CallSum {
  uint64_t calls = 0;
  int64_t cost_ns = 0;
  int64_t wait_ns = 0;  // of it, for work of the device
  uint64_t unmeasured_waits = 0;
  int64_t worst_ns = 0;
  int64_t worst_at_us = 0;  // since 1970

  void add(const cachalot_trace_event& event);
  void add(const CallSum& other);
};

struct RecordingSummary {
  // By the letter of how the program asked (docs/trace-format.md).
  std::map<char, CallSum> requests;
  std::map<char, CallSum> returns;
  CallSum served_requests;
  CallSum served_returns;
  uint64_t refused = 0;
  uint64_t exported = 0;
  uint64_t block_peak = 0;    // bytes of blocks at a time, of all devices
  size_t events_to_peak = 0;  // how many events lead to it
  uint64_t served_peak = 0;   // of those that are served
  uint64_t other_peak = 0;    // of memory outside of any cache
  int64_t begin_us = 0;       // since 1970
  int64_t end_us = 0;
  bool is_whole = false;  // the process ended as it should
  bool begins_with_live = false;
  uint64_t lost = 0;  // events

  int64_t cost_ns() const;
};

// Memory that is live, of one kind.
struct Holding {
  uint64_t blocks = 0;
  uint64_t bytes = 0;  // as requested
  uint64_t peak = 0;   // of bytes
  uint64_t pages =
      0;  // bytes of the pages that the driver gives a block of its own; else as requested

  void add(uint64_t size);
  void remove(uint64_t size);
};

// Goes through the events of a process, one after another.
class RecordingReader {
 public:
  explicit RecordingReader(int64_t begin_us);

  void see(const cachalot_trace_event& event);
  // Nothing is live: the process has ended, or its next file begins, which says what is.
  void forget_live();

  RecordingSummary summary() const;
  // By device and the letter of how the program asked.
  const std::map<std::pair<int32_t, char>, Holding>& held() const { return held_; }

 private:
  // Bytes at a time, and the most that there were.
  struct Level {
    uint64_t bytes = 0;
    uint64_t peak = 0;

    // Gives whether there are more than ever before.
    bool add(uint64_t size);
    void remove(uint64_t size);
  };

  void obtained(const cachalot_trace_event& event);
  void given_back(const cachalot_trace_event& event);
  void remove(const cachalot_trace_event& event);
  void call_ended(const cachalot_trace_event& event);
  void context_ended(int32_t device);

  RecordingSummary summary_;
  size_t seen_ = 0;                                          // events
  std::unordered_map<uint64_t, cachalot_trace_event> live_;  // by address
  std::unordered_map<uint64_t, cachalot_trace_event>
      ending_;  // by thread: what its call gives back
  std::map<std::pair<int32_t, char>, Holding> held_;
  Level blocks_;
  Level served_;
  Level others_;
};

RecordingSummary summarize(const cachalot_trace_info& info,
                           const std::vector<cachalot_trace_event>& events);

}  // namespace cachalot::cli
