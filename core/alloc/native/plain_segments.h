// SPDX-License-Identifier: MIT OR Apache-2.0
// Segments that the driver or a pool's source gives as one piece: how they come, and how they go back
// [core 8.9, 15.5].
#pragma once

#include <optional>

#include "alloc/native/alloc_params.h"
#include "alloc/native/device_state.h"

namespace cachalot {

class PlainSegments : private DeviceOperation {
 public:
  explicit PlainSegments(DeviceState& device) : DeviceOperation(device) {}

  // ---- Segments come
  // Memory for a segment of the request, from the driver or the pool's source. Nothing: out of memory.
  // pre: the request holds its pool; no lock is needed.
  std::optional<Address> ask_driver(AllocParams& params);
  // A segment of this memory. Its block covers it, and is in no set. Gives the memory back where it
  // throws. pre: the shard of the request, and the device's lock.
  Block* add(const AllocParams& params, Address address);

  // ---- Segments go
  // pre: a free plain block that covers its segment.
  void release(Block* block, ContextId context);
  // The steps of a release: the counter and the entry, the driver's call, the end of the segment. No
  // lock is needed for the driver's call, while no other call finds the block.
  void announce_release(const Block* block, ContextId context);
  DriverCode give_to_driver(const Block* block);
  // pre: the block is in no set; the driver has the memory back.
  void forget(Block* only_block);
  // Without a look at tables and counters.
  DriverCode give_range_to_driver(const BlockPool& pool, Address address, uint64_t size,
                                  Stream source_stream);
};

}  // namespace cachalot
