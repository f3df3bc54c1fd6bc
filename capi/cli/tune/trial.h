// SPDX-License-Identifier: MIT OR Apache-2.0
// A recorded run under options that somebody wants to know about.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "../run.h"
#include "option_string.h"

namespace cachalot::cli {

// Thrown by a trial that was stopped.
struct Cancelled {};

// What came of a recorded run on a device of some size.
struct Trial {
  uint64_t capacity = 0;
  uint64_t out_of_memory = 0;  // requests
  uint64_t peak_reserved = 0;
  uint64_t peak_device = 0;   // the most that the driver had handed out of one device
  uint64_t retries = 0;       // requests for which the cache was given back
  uint64_t driver_calls = 0;  // that obtained memory and gave it back
  std::vector<cachalot_replay_call> calls;

  bool fits() const { return out_of_memory == 0; }
};

// A recorded run. Any thread may try it.
class TunedRun {
 public:
  // cancelled: trials end with Cancelled once it is set. Throws Failure.
  TunedRun(const std::string& file, int32_t release, const std::atomic<bool>* cancelled);
  TunedRun(std::string name, TraceHandle trace, int32_t release,
           const std::atomic<bool>* cancelled);

  const std::string& name() const { return name_; }
  const cachalot_trace_info& info() const { return info_; }
  const cachalot_trace* trace() const { return trace_.get(); }
  int32_t release() const { return release_; }
  // The most that the program had requested at once, with blocks that wait for work of another stream.
  uint64_t peak_requested() const { return peak_requested_; }

  // To its end. Throws Failure and Cancelled.
  Trial run(const OptionString& options, uint64_t capacity) const;
  // As far as the first request that fails.
  Trial run_until_failure(const OptionString& options, uint64_t capacity) const;

 private:
  void find_peak();
  ReplayHandle replay(const OptionString& options, uint64_t capacity, bool to_failure) const;
  Trial try_out(const OptionString& options, uint64_t capacity, bool to_failure) const;

  std::string name_;
  TraceHandle trace_;
  cachalot_trace_info info_{};
  int32_t release_;
  const std::atomic<bool>* cancelled_;
  uint64_t peak_requested_ = 0;
};

// The largest device that a replay can have.
inline constexpr uint64_t kUnlimited = uint64_t{4} << 40;

}  // namespace cachalot::cli
