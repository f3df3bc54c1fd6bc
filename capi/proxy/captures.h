// SPDX-License-Identifier: MIT OR Apache-2.0
// The streams that a program captures.
//
// Note [Captures and waits of the proxy]
// Rationale: an event that is recorded for a whole context, or a wait for it, ends every capture of the context
// with an error, in each of the modes. cuMemFree itself does not.
// Approach: the proxy records such an event only while no capture is under way, and a capture begins and ends only
// while no such event is being recorded: both hold one lock. The wait for the event, which can be long, needs no
// lock, since a capture bears it.
// Limitations: a capture that begins meanwhile waits for the record of an event, some microseconds.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "base/mutex.h"
#include "contexts.h"
#include "device/device.h"

namespace cachalot::proxy {

class Captures {
 public:
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }

  // call: the driver's function that begins one, which may fail.
  template <class Call>
  Result begin(Stream stream, const DriverContext* context, Call call) {
    const std::lock_guard guard(mutex_);
    const auto [row, is_new] = streams_.try_emplace(stream, context);
    const Result result = call();
    if (result != 0 && is_new) streams_.erase(row);
    count();
    return result;
  }

  // call: the driver's function that ends one, or that destroys the stream. It says whether the stream is
  // captured no longer. Gives whether the stream was captured before and is not now.
  template <class Call>
  bool end(Stream stream, Call call) {
    const std::lock_guard guard(mutex_);
    const bool was_captured = call() && streams_.erase(stream) != 0;
    count();
    return was_captured;
  }

  void end_all_of(const DriverContext* context) {
    const std::lock_guard guard(mutex_);
    std::erase_if(streams_, [&](const auto& row) { return row.second == context; });
    count();
  }

  // Calls `act` unless a capture is under way. Gives whether it did.
  template <class Act>
  bool unless_any(Act act) {
    const std::lock_guard guard(mutex_);
    if (!streams_.empty()) return false;
    act();
    return true;
  }

 private:
  void count() { count_.store(streams_.size(), std::memory_order_relaxed); }

  Mutex mutex_{LockRank::kCaptures};
  std::map<Stream, const DriverContext*> streams_;
  std::atomic<size_t> count_{0};
};

}  // namespace cachalot::proxy
