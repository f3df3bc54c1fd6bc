// SPDX-License-Identifier: MIT OR Apache-2.0
// The blocks of a context that the program has freed, and that work of the device may still use.
//
// Note [Events of freed blocks]
// Rationale: an event of the whole context tells when the work is done that was queued before a free. To record one and
// to ask for it takes longer than all else that a request and its free take.
// Approach: an event stands for a batch of blocks, and is recorded behind the last of them. The newest batch is open: it
// has no event yet. It is closed when it has 16 blocks or an eighth of the bytes that may wait. Requests ask for the
// oldest event once after each batch that is closed; a request that finds no cached block closes the open batch, and
// asks for all events.
// Invariants: events are recorded, and asked for, only while no capture is under way (captures.h). A batch is done after
// those before it, since an event stands for all work that was queued before it. To the allocator the blocks are live.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_set>
#include <vector>

#include "alloc/heap/request.h"
#include "base/mutex.h"
#include "contexts.h"

namespace cachalot::proxy {

class FreedBlocks {
 public:
  // free: gives a block to the allocator, when no work uses it.
  using Free = std::function<void(Address)>;

  FreedBlocks(DriverContext* context, Free free);

  bool has_any() const { return count_.load(std::memory_order_relaxed) != 0; }
  // Of all blocks here.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  bool holds(Address address);

  // most_bytes: that may wait. Refuses a block that is here already, since another thread frees it too. Gives the
  // driver's error, after which the block is not here.
  Result add(const BlockInfo& block, uint64_t most_bytes);
  // Frees what is done, of batches that were closed since the last look. Gives the driver's error.
  Result free_done();
  // Frees all that is done.
  Result free_all_done();
  // Both free what is done, and do not wait while a stream is captured.
  // Waits until at most so many bytes are here, of other threads too.
  Result wait_for_leash(uint64_t most_bytes);
  // Waits for the blocks that are here when it is called.
  Result wait_for_all();
  // The allocator has them all back.
  void clear();

 private:
  static constexpr size_t kBlocksOfABatch = 16;
  static constexpr size_t kSpareNodes = 256;
  static constexpr size_t kSpareLists = 16;

  struct Block {
    Address address;
    uint64_t size;
  };
  struct Batch {
    EventHandle event = nullptr;  // null: its work is done
    std::vector<Block> blocks;
  };

  // pre (of all): mutex_ is held.
  bool insert(Address address);
  void take_back_newest() noexcept;
  Result close();
  bool can_wait() const;
  Result look_at_events();
  void free_oldest() noexcept;

  DriverContext* const context_;
  const Free free_;
  std::atomic<size_t> count_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<bool> has_unasked_event_{false};  // a batch was closed since events were asked for
  Mutex mutex_{LockRank::kFreedBlocks};
  std::unordered_set<Address> addresses_;
  std::vector<std::unordered_set<Address>::node_type> spare_nodes_;  // within their capacity
  Batch open_;
  uint64_t open_bytes_ = 0;
  std::deque<Batch> closed_;                     // the oldest one first
  std::vector<std::vector<Block>> spare_lists_;  // within their capacity
};

}  // namespace cachalot::proxy
