// SPDX-License-Identifier: MIT OR Apache-2.0
// A block of pinned host memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "device/device.h"

namespace cachalot {

struct PinnedPool;

// A stream that uses a block, and from the free on the event that is recorded there.
struct PinnedUse {
  int device;
  Stream stream;
  uint64_t event;  // 0: none yet
};

// Note [States of a pinned block]
//   kNone -> kUsed          it was obtained for a request
//   kUsed -> kFree          freed, and no stream uses it
//   kUsed -> kWaiting       freed, and streams use it; kWaiting -> kFree when they are done
//   kUsed -> kLost          freed, handed out to a captured stream, and streams use it
//   kFree -> kUsed          it serves a request of its class
//   kFree -> kNone          an emptied cache gives it back; where the driver refuses, kNone -> kFree
// A block above pinned_max_cached_size_mb becomes kNone where it would become kFree. The lock of its cache guards each
// of these steps, so of two frees of one block exactly one finds it in use.
//
// Its object stays where it is until the allocator ends, and may stand for another block later.
struct alignas(64) PinnedBlock {
  enum class State : uint8_t {
    kNone,     // in no list
    kFree,     // cached
    kUsed,     // handed out
    kWaiting,  // freed, and still used by streams
    kLost,     // freed, and never handed out again [pinned 6.3]
  };

  // All that a hit touches is in one line of the cache.
  //
  // Constant while the object stands for the block.
  std::atomic<Address> address;  // 0: it stands for none
  std::atomic<uint64_t> size;    // bytes
  PinnedPool* pool;              // that it is of

  // Guarded by the lock of the cache.
  PinnedBlock* next;            // below it in its class, or behind it in the queue
  std::vector<PinnedUse> uses;  // streams that use it; while it waits the queue's
  State state;
  bool is_captured;  // it was handed out to a stream that was captured

  // Constant, as above.
  HostMemoryOrigin origin;
  bool is_in_region;  // of reserved memory [pinned 2.2], which is not given back
  uint32_t number;    // of the object, for good

  // While it waits.
  size_t uses_done;         // how many of the events have come
  bool is_kept_by_failure;  // the reference would have lost it by now (U23)
};

}  // namespace cachalot
