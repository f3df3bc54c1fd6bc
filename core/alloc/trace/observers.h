// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions of callers that an allocator calls.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "alloc/trace/history.h"
#include "alloc/trace/snapshot.h"
#include "base/error.h"

namespace cachalot {

// A request refused before the driver was asked (R31). Bytes.
struct Rejection {
  int32_t device;
  uint64_t segment_size;
  uint64_t reserved;
  uint64_t device_total;
};

// Runs with the device's lock held and must not call back.
using TraceObserver = std::function<void(const TraceEntry&)>;
// Sees the rows of one device as they are when a trace observer begins to see its events: no event comes in
// between. Runs as that observer does, but may throw.
using LiveRowsObserver = std::function<void(const Snapshot&)>;
// Run without a lock and may call back.
using OutOfMemoryObserver = std::function<void(const OutOfMemory&)>;
using RejectionObserver = std::function<void(const Rejection&)>;
// True if it freed something.
using FreeMemoryCallback = std::function<bool(int device, uint64_t size)>;

template <typename Observer>
using Observers = std::map<uint64_t, Observer>;

// All attached functions, by the ids that detach them. A change makes a new set, so that a call
// keeps the set that it began with.
struct ObserverSet {
  Observers<TraceObserver> trace;
  Observers<OutOfMemoryObserver> out_of_memory;
  Observers<RejectionObserver> rejection;
  Observers<FreeMemoryCallback> free_memory;
};

}  // namespace cachalot
