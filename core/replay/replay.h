// SPDX-License-Identifier: MIT OR Apache-2.0
// Replays a recorded run: the recorded program's acts (program.h) on an allocator over a simulated
// device.
//
//   const ReplayOptions options = resolve(trace, wishes, default_release);
//   auto device = std::make_shared<ReplayDevice>(replay_device_options(trace, options));
//   Allocator allocator(replay_allocator_options(options, device));
//   const ReplayResult result = replay(trace, options, &allocator, device.get());
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alloc/allocator.h"
#include "replay/event_comparison.h"
#include "replay/replay_device.h"
#include "replay/replay_history.h"
#include "replay/trace.h"

namespace cachalot {

struct ReplayOptions {
  std::optional<std::string> config;  // none: the recorded one
  std::optional<Release> release;     // none: the recorded one, else the default
  // Hand out the recorded addresses and compare every event.
  bool expect = false;
  uint64_t capacity = 0;  // 0: the recorded number, else 80 GiB
  double fraction = 0;    // 0: no limit
  ServingOptions serving;
  bool stop_at_out_of_memory = false;  // the replay ends at the first request that fails so
  bool keeps_history = false;
  // Called now and then with the events done and all; false stops the replay. May be empty.
  std::function<bool(uint64_t done, uint64_t total)> progress;
  // Sees what the allocator did at an event of the trace, given by its index, when all of it is done: it may ask the
  // allocator. May be empty.
  std::function<void(size_t event, const TraceEntry& entry)> observer;
  size_t event_count = 0;  // only so many events of the trace, from the first on; 0: all

  bool is_resolved() const { return config && release && capacity != 0; }
};

struct ReplayResult {
  uint64_t allocations = 0;
  uint64_t out_of_memory = 0;
  MemoryCalls calls;
  std::vector<MemoryCallCount> call_counts;
  // Bytes; the sums of the peaks of all devices.
  uint64_t peak_requested = 0;
  uint64_t peak_allocated = 0;
  uint64_t peak_reserved = 0;
  EventDifferences differences;
  HistoryOfDevices history;  // with the recorded times and contexts, where options ask for it
};

// The wishes with nothing left open. default_release: for traces of other releases. Throws
// Error(kInvalidArgument) for wishes that do not fit each other or the trace.
ReplayOptions resolve(const Trace& trace, ReplayOptions wishes, Release default_release);

// pre, for these: options.is_resolved().
size_t replayed_events(const Trace& trace, const ReplayOptions& options);
SimOptions replay_device_options(const Trace& trace, const ReplayOptions& options);
AllocatorOptions replay_allocator_options(const ReplayOptions& options,
                                          std::shared_ptr<Driver> device);

// pre: an allocator and a device made so, not yet used. Throws Error(kIo) for a trace that cannot
// have happened, Error(kCallback) if it is stopped. Blocks that the program did not free are live
// afterwards.
ReplayResult replay(const Trace& trace, const ReplayOptions& options, Allocator* allocator,
                    ReplayDevice* device);

}  // namespace cachalot
