// SPDX-License-Identifier: MIT OR Apache-2.0
// The streams that a program captures.
//
// Note [Captures and waits of the proxy]
// Rationale: an event that is recorded for a whole context, or a wait for it, ends every capture of the context
// with an error, in each of the modes. cuMemFree itself does not.
// Approach: the proxy records such an event only while no capture is under way, and a capture begins only while no
// such event is being recorded: both hold one lock. The wait for the event, which can be long, needs no lock,
// since a capture bears it.
// Limitations: a capture that begins meanwhile waits for the record of an event, some microseconds.
#pragma once

#include <atomic>
#include <mutex>
#include <set>

#include "base/mutex.h"
#include "device/device.h"
#include "driver_types.h"

namespace cachalot::proxy {

class Captures {
 public:
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }

  // call: the driver's function that begins one, which may fail.
  template <class Call>
  Result begin(Stream stream, Call call) {
    const std::lock_guard guard(mutex_);
    const Result result = call();
    if (result == 0) streams_.insert(stream);
    count_.store(streams_.size(), std::memory_order_relaxed);
    return result;
  }

  // Also of a stream that is destroyed. Whether it was captured.
  bool end(Stream stream) {
    const std::lock_guard guard(mutex_);
    const bool was_captured = streams_.erase(stream) != 0;
    count_.store(streams_.size(), std::memory_order_relaxed);
    return was_captured;
  }

  // Calls `act` unless a capture is under way. Whether it did.
  template <class Act>
  bool unless_any(Act act) {
    const std::lock_guard guard(mutex_);
    if (!streams_.empty()) return false;
    act();
    return true;
  }

 private:
  Mutex mutex_{LockRank::kCaptures};
  std::set<Stream> streams_;
  std::atomic<size_t> count_{0};
};

}  // namespace cachalot::proxy
