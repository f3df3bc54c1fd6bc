// SPDX-License-Identifier: MIT OR Apache-2.0
// The blocks of a private pool at one moment, as data.
#pragma once

#include <vector>

#include "alloc/config/pool_id.h"
#include "device/device.h"

namespace cachalot {

// Addresses and sizes are all that a restore needs: the contents of blocks are the graphs' own, which write them anew
// with each replay.
struct CheckpointBlock {
  Address address;
  uint64_t size;  // bytes
  Stream stream;
  bool is_used;
  bool is_mapped;  // false: addresses of an expandable segment without pages
};

// Data that a caller may keep, write down and give back. A restore compares it with the pool, so that no content of it
// can do harm.
struct Checkpoint {
  PoolId pool;
  // The blocks of each segment, which they cover, by address. Segments are restored in this order.
  std::vector<std::vector<CheckpointBlock>> segments;
};

// What a restore did, in its order.
struct CheckpointChanges {
  std::vector<Address> freed;
  std::vector<Address> created;
};

}  // namespace cachalot
