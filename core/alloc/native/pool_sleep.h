// SPDX-License-Identifier: MIT OR Apache-2.0
// Pools fall asleep and wake: see Note [Pools that sleep] in pools/sleeping_pool.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alloc/native/alloc_params.h"
#include "alloc/native/block_cache.h"
#include "alloc/native/device_state.h"
#include "alloc/native/expandable_memory.h"
#include "alloc/pools/sleeping_pool.h"
#include "alloc/shards/device_lock.h"

namespace cachalot {

inline BlockOwners::Owner owner_of(const SleepingBlock& block) {
  return {block.label, block.tenant};
}

// Every function locks what it needs; none keeps a lock while it waits for the device or asks for memory of the
// host. pre of the public functions: the thread holds no lock.
class PoolSleep : private DeviceOperation {
 public:
  explicit PoolSleep(DeviceState& device)
      : DeviceOperation(device), cache_(device), memory_(device) {}

  // Gives the bytes that the driver has back. Throws where the pool cannot sleep, and nothing has changed.
  uint64_t sleep(const SleepRequest& request);
  // What becomes of blocks with this label, whatever a sleep says. Throws where labels are not tracked.
  void set_contents(PoolId id, const std::string& label, SleepContents contents);

  // The caller's free of a block that sleeps. False: there is no such block.
  bool free(Address address);
  // Drops all blocks that sleep.
  void free_all();
  // A pool that has neither users nor blocks any more does not wake: its addresses go.
  void end_if_unused(PoolId id);

  SleepStats stats(PoolId id);  // the default pool: of all
  // Gives the pages of a pool without blocks back, as far as memory of the host lasts.
  void unmap_all(PoolId id, ContextId context) noexcept;
  // The pool sleeps from now on, or ends. pre: it has fallen asleep, or could not wake.
  void settle(PoolId id);
  // The pool that a block around the address sleeps with; nothing: there is no such block.
  std::optional<PoolId> pool_of(Address address);

 private:
  using State = SleepingPool::State;

  std::vector<Segment*> segments_of(const PrivatePool& pool) const;
  // Throws what cachalot_pool_sleep documents.
  void require_can_sleep(const PrivatePool& pool, const SleepRequest& request) const;
  // The pages of the blocks that are taken, by address. Runs that touch are one where they are of one segment.
  template <class Takes>
  std::vector<PageRun> runs_of(const PrivatePool& pool, Takes takes) const;
  // By the rule of the block's label, or else by what the sleep says.
  bool keeps(const PrivatePool& pool, const Block* block, SleepContents contents) const;
  // The pool is kFallingAsleep from here on, and nothing else of it has changed.
  void begin(const SleepRequest& request, ContextId context, std::vector<PageRun>* kept);
  // Waits for the device, and copies. pre: no lock.
  KeptContents save(const SleepRequest& request, const std::vector<PageRun>& kept);
  // What waking needs. pre (here and below): the whole device.
  void note_and_free_blocks(PrivatePool& pool, ContextId context);
  void wait_for_work();  // pre: no lock
  // False: no page is left.
  bool unmap_some(PoolId id, ContextId context);
  // A block that is not handed out again.
  void forget(SleepingPool& pool, std::map<Address, SleepingBlock>::iterator block);
  PrivatePool* find_pool_of(Address address) const;  // null: no block around the address sleeps
  uint64_t mapped_bytes(const PrivatePool& pool) const;
  // Gives the contents that are needed no more.
  KeptContents end_unless_used(PrivatePool& pool);

  BlockCache cache_;
  ExpandableMemory memory_;
};

}  // namespace cachalot
