// SPDX-License-Identifier: MIT OR Apache-2.0
// The streams that a program captures.
//
// Note [Captures and waits of the proxy]
// Rationale: an event that is recorded for a whole context, or a wait for it, ends every capture of the context
// with an error, in each of the modes. cuMemFree itself does so only where the mode forbids it (docs/gpu.md, "What ends a
// capture").
// Approach: the proxy records such an event only while no capture is under way, and a capture begins and ends only
// while no such event is being recorded: the former share one lock, the latter take it alone. The wait for the event,
// which can be long, needs no lock, since a capture bears it.
// Limitations: a capture that begins meanwhile waits for the record of an event, some microseconds; and for the device
// with drivers before CUDA 12.5, which have no such event, and where a request finds too little memory while blocks wait
// that are of a stream (`--async`).
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "device/device.h"
#include "driver_types.h"

namespace cachalot::proxy {

class Captures {
 public:
  // This process's. A child that was forked has its own.
  static Captures& get();

  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  // Whether there has been one.
  bool any_so_far() const { return has_begun_.load(std::memory_order_relaxed); }

  // call: the driver's function that begins one, which may fail. began: is called if it did.
  template <class Call, class Began>
  Result begin(Stream stream, Context context, Call call, Began began) {
    const std::lock_guard guard(mutex_);
    has_begun_.store(true, std::memory_order_relaxed);
    const auto [row, is_new] = streams_.try_emplace(stream, context);
    const Result result = call();
    if (result != 0 && is_new) streams_.erase(row);
    if (result == 0 && is_new) began();
    count();
    return result;
  }

  // call: the driver's function that ends one, or that destroys the stream. It says whether the stream is
  // captured no longer. ended: is called if the stream was captured before and is not now, which is given.
  template <class Call, class Ended>
  bool end(Stream stream, Call call, Ended ended) {
    const std::lock_guard guard(mutex_);
    const bool was_captured = call() && streams_.erase(stream) != 0;
    if (was_captured) ended();
    count();
    return was_captured;
  }

  // The context has ended. ended: is called for each that it had.
  template <class Ended>
  void end_all_of(Context context, Ended ended) {
    const std::lock_guard guard(mutex_);
    const size_t count_of_ended =
        std::erase_if(streams_, [&](const auto& row) { return row.second == context; });
    for (size_t i = 0; i < count_of_ended; i++) ended();
    count();
  }

  // Calls `act` unless a capture is under way, and none begins meanwhile. Gives whether it did.
  template <class Act>
  bool unless_any(Act act) {
    const std::shared_lock guard(mutex_);
    if (!streams_.empty()) return false;
    act();
    return true;
  }

  // Calls `act` with the number of captures that are under way; none begins or ends meanwhile.
  template <class Act>
  auto holding(Act act) {
    const std::shared_lock guard(mutex_);
    return act(streams_.size());
  }

 private:
  void count() { count_.store(streams_.size(), std::memory_order_relaxed); }

  std::shared_mutex mutex_;
  std::map<Stream, Context> streams_;
  std::atomic<size_t> count_{0};
  std::atomic<bool> has_begun_{false};
};

}  // namespace cachalot::proxy
