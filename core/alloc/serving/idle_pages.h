// SPDX-License-Identifier: MIT OR Apache-2.0
// The whole pages of cached blocks, which another range can have [policy P8].
#pragma once

#include <cstdint>
#include <vector>

#include "alloc/heap/pins.h"
#include "alloc/native/device_state.h"
#include "alloc/serving/place.h"
#include "alloc/serving/stream_order.h"

namespace cachalot {

// Whole pages of one cached block.
struct IdleRange {
  Block* block;
  Address begin;
  Address end;
  uint64_t stamp;  // the latest

  uint64_t size() const { return end - begin; }
};

// Those of the default pools' blocks that are not pinned, from the longest idle to the shortest; private pools
// keep theirs.
// None of them lies under the place that they are for. pre: the whole device, from the look to the use.
class IdlePages {
 public:
  IdlePages(DeviceState& device, const StreamOrder& order, uint64_t page_size, const Place& place);

  uint64_t bytes() const { return bytes_; }
  // So many bytes, or all there are; of a block no more than are missing, from the end that lies
  // beside a hole, else from the back.
  std::vector<IdleRange> longest_idle(uint64_t bytes) const;

 private:
  void look_at(Block* block, Address keep_begin, Address keep_end);
  void add(Block* block, Address begin, Address end);

  const Pins& pins_;
  const StreamOrder& order_;
  std::vector<IdleRange> ranges_;
  uint64_t bytes_ = 0;
};

}  // namespace cachalot
