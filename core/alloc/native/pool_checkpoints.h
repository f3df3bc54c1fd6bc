// SPDX-License-Identifier: MIT OR Apache-2.0
// Checkpoints of private pools [core 19]: graphs that share a pool are replayed in other orders than they were
// captured in, and each expects the blocks that were live when its capture began.
//
// Note [Restoring a pool]
// Rationale: the reference frees all blocks of the pool first and then looks for those of the checkpoint. Where one is
// not there it throws, and the pool has lost its blocks.
// Approach: each recorded segment is compared with the pool before anything changes, and all memory that the steps need
// is obtained. Then they cannot fail. A restore that the reference would begin and not end is refused (U25). So is one
// over a block that waits for a stream: the reference hands it out while it is still queued (U12).
//   The order of the first frees is that of the addresses. In the reference it is that of a table of pointers, which
// differs from run to run; a caller who wants another order frees the blocks itself before.
#pragma once

#include <vector>

#include "alloc/native/block_cache.h"
#include "alloc/pools/checkpoint.h"
#include "alloc/shards/device_lock.h"

namespace cachalot {

// pre of the public functions: no lock of the device. Of the others: the whole device.
class PoolCheckpoints : private DeviceOperation {
 public:
  explicit PoolCheckpoints(DeviceState& device) : DeviceOperation(device), cache_(device) {}

  // Throws where there is no such pool, or a block of it waits for a stream [core 19.1].
  Checkpoint take(PoolId id);
  // Throws where a policy or red zones have a say in what is handed out, and where the pool is not as the checkpoint needs it, and nothing has changed [core 19.2].
  CheckpointChanges apply(const Checkpoint& checkpoint);

 private:
  using Recorded = std::vector<CheckpointBlock>;

  PrivatePool& existing(PoolId id) const;
  void require_plain_hand_outs() const;
  // Without the end of an expandable segment that has no pages, which is not restored [core 19.3].
  static size_t restored_count(const Recorded& blocks);
  // Throws where the pool is not as the checkpoint needs it. is_used: some block of it is handed out.
  void require_restorable(const PrivatePool& pool, const Checkpoint& checkpoint,
                          bool is_used) const;
  // Throws where the pool has no segment that begins as the blocks do, with one that becomes free.
  const Segment& segment_of(const PrivatePool& pool, const Recorded& blocks) const;
  // Throws where the segment has no room for the blocks once all used ones are free.
  static void require_room(const Segment& segment, const Recorded& blocks);
  // What can fail of the steps that follow. pre: require_room().
  void reserve_for(const Checkpoint& checkpoint);
  // restored: room for the blocks.
  // changes: gets the blocks that stay handed out. Cannot fail.
  void restore(const Recorded& blocks, const AllocParams& params, std::vector<Block*>* restored,
               CheckpointChanges* changes, ContextId context_of_frees);
  AllocParams params_for(const Recorded& blocks, ContextId context) const;

  BlockCache cache_;
};

}  // namespace cachalot
