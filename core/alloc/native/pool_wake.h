// SPDX-License-Identifier: MIT OR Apache-2.0
// A pool wakes: see Note [Pools that sleep] in pools/sleeping_pool.h.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "alloc/native/expandable_memory.h"
#include "alloc/native/pool_sleep.h"
#include "alloc/tenants/tenant_pressure.h"

namespace cachalot {

// One attempt. It maps all pages, queues the copies of what was kept, and then hands the blocks out in one moment.
// An attempt that fails gives back what it has mapped, and the pool sleeps on.
class PoolWake : private DeviceOperation {
 public:
  // stream: that copies.
  PoolWake(DeviceState& device, PoolId id, Stream stream);

  // pre: the thread holds no lock.
  void run();

 private:
  using State = SleepingPool::State;

  // Stays while the pool wakes. Its blocks change with frees: pre of a look at them is the whole device.
  SleepingPool& sleeping() const { return *pool_->sleep; }
  // The pool is kWaking from here on. Throws where it does not sleep.
  void begin();
  // [tenant 1 to 3] All or nothing. Throws where a tenant is not granted its bytes.
  void book_for_tenants();
  void book(TenantLedger::Slot slot, uint64_t bytes);  // of one tenant
  // False: out of memory.
  bool map_everything();
  // The pages that are missing, in pieces that are mapped under one lock each.
  std::vector<PageRun> steps() const;
  bool map_step(const PageRun& step);  // false: out of memory, or of the limit
  // Frees memory of others, with more effort each time. False: there is no more.
  bool make_room(uint64_t missing);
  void release_caches();
  void queue_copies(Address end);
  // Ends the sleep. Gives the contents, whose copies may be under way. Throws std::bad_alloc, and then nothing has
  // changed.
  KeptContents hand_out();
  const Segment& segment_of(const PageRun& run) const;
  void reserve_for(const PageRun& run);  // all memory of the host that hand_out_run() needs
  void hand_out_run(const PageRun& run);
  AllocParams params_of(const Segment& segment, const SleepingBlock& block) const;
  AllocParams params_of_pool(uint64_t bytes) const;
  // What this attempt has mapped.
  void give_back() noexcept;
  [[noreturn]] void throw_out_of_memory();

  const PoolId id_;
  const Stream stream_;
  const ContextId context_;
  ExpandableMemory memory_;
  BlockCache cache_;
  PrivatePool* pool_ = nullptr;
  std::map<BlockSupply*, uint32_t> objects_;  // that the hand-out needs
  std::vector<TenantBooking> bookings_;
  std::optional<TenantPressure> pressure_;
  uint64_t mapped_ = 0;  // bytes
  size_t copied_ = 0;    // parts
  bool has_released_caches_ = false;
};

}  // namespace cachalot
