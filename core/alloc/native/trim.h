// SPDX-License-Identifier: MIT OR Apache-2.0
// Gives back memory that has been idle: see Note [Idle memory] in backend/trim.h.
#pragma once

#include <mutex>
#include <vector>

#include "alloc/backend/trim.h"
#include "alloc/native/device_state.h"
#include "alloc/native/plain_segments.h"

namespace cachalot {

// One trim of a device. It collects candidates, then checks one after the other again, takes it out of
// the free set, gives it to the driver, and forgets it.
class Trim : private DeviceOperation {
 public:
  // pre: the device's lock. Of the shards one at a time is held, and none while the driver frees.
  Trim(DeviceState& device, const TrimGoal& goal, ContextId context)
      : DeviceOperation(device), plain_(device), goal_(goal), context_(context) {}

  void run(uint64_t* released);

 private:
  struct Candidate {
    Shard* shard;
    Block* block;
    // As they were; the block may have changed since.
    Address address;
    int64_t segment_number;
    uint64_t idle_since;
  };

  std::vector<BlockPool*> pools();
  std::vector<Candidate> collect(const std::vector<BlockPool*>& pools);
  void mark(Block* block) const;
  bool has_idled_enough(uint64_t since) const;
  bool is_before(const Candidate& a, const Candidate& b) const;
  bool is_still_idle(const Candidate& candidate) const;
  void release(const Candidate& candidate);
  void take_out(Block* block);
  void put_back(Block* block);
  void release_segment(Block* block, std::unique_lock<Lock>& guard);
  void release_pages(Block* block);
  void remove_empty_ranges(const std::vector<BlockPool*>& pools);
  void drop_what_is_empty(const std::vector<BlockPool*>& pools);

  PlainSegments plain_;
  const TrimGoal& goal_;
  const ContextId context_;
};

}  // namespace cachalot
