// SPDX-License-Identifier: MIT OR Apache-2.0
// Uses of blocks on other streams: record_stream notes them, and a free then waits for them
// [core 12, 18].
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "alloc/config/pool_id.h"
#include "alloc/heap/block.h"

namespace cachalot {

// One stream that uses a block.
struct StreamUse {
  Stream stream;
  // The stream was captured when the use was recorded: the graph orders it, so no free waits for it.
  bool is_captured;
  // Whether the reference takes it for captured. Where the two differ lie U1 and U2.
  bool reference_forgets;
  const char* defect;  // "U1" or "U2", for the remark
};

// Owned by its block while kRecorded is set, else by PendingFrees, which keeps some objects for the
// next blocks.
struct StreamUses {
  std::vector<StreamUse> uses;
  uint32_t events = 0;  // recorded at the free and not yet seen complete
};

// An event on the queue of its stream. A block with several streams has one on each.
struct PendingEvent {
  uint64_t event;
  Block* block;
};

// A free that waits for the end of a capture [core 18.1].
struct DeferredFree {
  Block* block;
  std::vector<uint64_t> nodes;  // empty: nothing in the capture can complete it
};

// The progress of recovery in one capture [core 18.4].
struct CaptureState {
  PoolId pool;
  std::map<Stream, std::set<uint64_t>> visited;  // graph nodes that lie before the stream's end
};

}  // namespace cachalot
