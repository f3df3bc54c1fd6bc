// SPDX-License-Identifier: MIT OR Apache-2.0
// Uses of blocks on other streams: what record_stream notes, and what a free then waits for
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
  // Recorded by a stream that was being captured: the graph orders it, nothing has to be waited
  // for.
  bool is_captured;
  // What the reference takes for captured: U1 and U2 lie where the two differ.
  bool reference_forgets;
  const char* defect;  // "U1" or "U2", for the remark
};

struct StreamUses {
  std::vector<StreamUse> uses;
  uint32_t events = 0;  // recorded at the free and not yet seen complete
};

struct PendingEvent {
  uint64_t event;
  Block* block;
};

// A free that waits for the end of a capture [core 18.1].
struct DeferredFree {
  Block* block;
  std::vector<uint64_t> nodes;  // empty: nothing in the capture can complete it
};

// What recovery knows of one capture [core 18.4].
struct CaptureState {
  PoolId pool;
  std::map<Stream, std::set<uint64_t>> visited;  // graph nodes that lie before the stream's end
};

}  // namespace cachalot
