// SPDX-License-Identifier: MIT OR Apache-2.0
// The allocator that serves a program in one context: the primary one of a device, or one that the program has created.
//
// Note [When a freed block may be used again]
// Rationale: cuMemFree waits until all work of the block's context is done, on whichever stream. So whoever has the
// memory next can use it on any stream, and the host can rely on the wait.
// Approach: blocks of cuMemAlloc are of the stream that stands for all streams (CACHALOT_STREAM_ALL).
//   wait   the free waits as the driver does, and the block is free at once;
//   event  the block is free when an event of the context is done that is recorded behind the free (freed_blocks.h). The
//          host does not wait, unless more bytes are on their way than the leash allows.
// While a stream is captured neither may be done (captures.h): blocks then wait until no capture is under way.
// Invariants: whoever may make the allocator record an event, or fill a block (CACHALOT_DEBUG), holds off captures
// (Captures::holding).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "alloc/heap/request.h"
#include "alloc/tools/metrics.h"
#include "cachalot/cachalot.h"
#include "contexts.h"
#include "device/device.h"
#include "freed_blocks.h"
#include "run_options.h"

namespace cachalot {
class Allocator;
struct Tenant;
}  // namespace cachalot

namespace cachalot::proxy {

struct DestroyAllocator {
  void operator()(cachalot_allocator* allocator) const {
    cachalot_allocator_destroy(allocator, nullptr);
  }
};
using OwnedAllocator = std::unique_ptr<cachalot_allocator, DestroyAllocator>;

class ServedContext {
 public:
  // Throws std::exception. captures: that are under way.
  ServedContext(DriverContext* context, const RunOptions& options, size_t captures);
  // Never destroyed: its memory ends with its context, and other threads may be within a call.
  ~ServedContext() = delete;
  ServedContext(const ServedContext&) = delete;
  ServedContext& operator=(const ServedContext&) = delete;

  DriverContext* context() const { return context_; }

  // stream: CACHALOT_STREAM_ALL, or the program's handle.
  Result allocate(uint64_t size, Stream stream, DeviceAddress* out);
  // The live block that begins at the address, or holds it.
  std::optional<BlockInfo> find(Address address);
  std::optional<BlockInfo> find_around(Address address);
  // Whether it has the memory, live or not. Looks at everything.
  bool has_cached(Address address);
  // The segment that holds the block.
  std::pair<Address, uint64_t> segment_of(Address address);

  // As cuMemFree and cuMemFreeAsync promise. block: of find().
  Result free(const BlockInfo& block);
  Result free_on(const BlockInfo& block, Stream stream);

  // Of live blocks, as rounded.
  uint64_t allocated_bytes() const;
  // What is cached and could be given back to the driver, in bytes.
  uint64_t cached_bytes() const;
  // Gives back all that is cached; what has not been used for so long. Nothing once the context has ended.
  void empty_cache();
  void trim(uint64_t idle_seconds);
  void give_access_to(DeviceOrdinal device);
  // Under the lock of the captures.
  void capture_begun();
  void capture_ended();

  // Live blocks too: the program is about to end the context.
  void give_all_back();
  // The context has ended, or is about to: whoever was not asked by the program leaves it alone from now on.
  void end();

  // That there have been.
  uint64_t requests() const { return requests_.load(std::memory_order_relaxed); }
  // Without what the driver says of the device's memory once the context has ended.
  Metrics metrics();
  cachalot_stats stats() const;

 private:
  void keep_blocks_whole();
  Result free_when_done(const BlockInfo& block);
  // How many freed bytes may wait for the device.
  uint64_t leash() const;
  Result allocate_or_miss(uint64_t size, Stream stream, Address* out);
  Result allocate_in_general(uint64_t size, Stream stream, Address* out);
  std::optional<BlockInfo> unless_freed(std::optional<BlockInfo> block);
  Result clear(Address address, uint64_t size);
  template <class Act>
  auto holding_off_captures(Act act);
  template <class Act>
  void unless_ended(Act act);

  DriverContext* const context_;
  const RunOptions& options_;
  std::shared_ptr<Driver> driver_;
  OwnedAllocator allocator_;
  std::shared_ptr<Tenant> tenant_;
  Stream clearing_stream_ = 0;
  const bool fills_blocks_;  // as CACHALOT_DEBUG asks, by waits for the device
  std::mutex end_mutex_;
  bool has_ended_ = false;
  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> live_bytes_{0};
  FreedBlocks freed_;
};

}  // namespace cachalot::proxy
