// SPDX-License-Identifier: MIT OR Apache-2.0
// A private pool that sleeps: its pages are the driver's again, its addresses stay reserved.
//
// Note [Pools that sleep]
// Rationale: a server has more models than fit on a device, and graphs and pointers of an idle one have to be
// right when it is used again. So its memory has to come back at the same addresses.
// Approach: the blocks that are handed out are noted here and freed, and then all pages of the pool are
// unmapped. Waking maps new pages at the same addresses and hands the same blocks out again. All accounts stay right,
// since each sleep frees the blocks and each wake hands them out. Contents that the caller keeps are copied to pinned
// memory before the pages go, and back after new pages have come.
// The steps of a sleep: the pool is marked, so that no request comes to it; contents are copied, without a lock; the
// blocks are freed and noted, in one moment; pages go, some at a time. Up to the third step a failure leaves the pool as
// it was, and the frees of its blocks go on.
// The steps of a wake: tenants are granted their bytes; pages come, some at a time, and copies are queued behind each;
// the blocks are handed out, in one moment. Up to there a failure gives the pages back, and the pool sleeps on.
// Between the steps the device is unlocked, so that other pools serve requests meanwhile. Nobody else changes the
// segments of a pool that has a SleepingPool: it keeps its memory (PrivatePool::keeps_memory), no request is routed to
// it, and its pages cannot be pinned.
// Invariants: a pool has a SleepingPool exactly while it is not awake. While it is kAsleep no page of its
// segments is mapped, no block of it is handed out, and no request is routed to it.
// Limitations: plain segments cannot come back at their addresses, so a pool that has one does not sleep.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "alloc/config/pool_id.h"
#include "alloc/trace/history.h"
#include "base/reserve.h"
#include "device/device.h"

namespace cachalot {

// What becomes of contents. The numbers are those of CACHALOT_SLEEP_*.
enum class SleepContents : int32_t {
  kDiscard = 0,
  kKeep = 1,     // of blocks that are handed out
  kKeepAll = 2,  // of free memory too, which graphs may have results in
};

// Where contents are kept: pinned memory of the host. The caller's, since an allocator can have pinned memory of two
// kinds. Any thread.
class ContentStore {
 public:
  ContentStore() = default;
  ContentStore(const ContentStore&) = delete;
  ContentStore& operator=(const ContentStore&) = delete;
  virtual ~ContentStore() = default;

  virtual Address allocate(uint64_t size) = 0;  // throws where there is none
  // The stream may still read or write the buffer.
  virtual void free(Address buffer, int device, Stream stream) noexcept = 0;
};

// How a pool falls asleep.
struct SleepRequest {
  PoolId pool;
  SleepContents contents = SleepContents::kDiscard;
  Stream stream = 0;  // that copies
  std::shared_ptr<ContentStore> store;
  bool needs_memory = false;  // a pool that has none is refused
};

// A part of a pool's memory whose contents are kept.
struct KeptPart {
  Address address;
  uint64_t size;
  Address buffer = 0;
};

// A block that is handed out again when its pool wakes, as it was.
struct SleepingBlock {
  uint64_t size;
  uint64_t requested;
  ContextId context;
  uint32_t label;   // pinned while the block sleeps
  uint32_t tenant;  // which cannot end while the block sleeps
};

// Pages side by side in one segment.
struct PageRun {
  Address begin;
  Address end;

  uint64_t size() const { return end - begin; }
};

// The buffers of kept parts, which go back to their store at the end.
class KeptContents {
 public:
  KeptContents() = default;
  KeptContents(std::shared_ptr<ContentStore> store, int device, Stream stream)
      : store_(std::move(store)), device_(device), stream_(stream) {}
  // What is moved from goes with the object that has it afterwards, so buffers are freed once.
  KeptContents(KeptContents&& other) noexcept { swap(other); }
  KeptContents& operator=(KeptContents&& other) noexcept {
    swap(other);
    return *this;
  }
  ~KeptContents() {
    for (const KeptPart& part : parts_) store_->free(part.buffer, device_, stream_);
  }

  // A buffer for a part. Throws what the store does.
  void add(Address address, uint64_t size) {
    reserve_one_more(parts_);  // so that no buffer is lost
    parts_.push_back({address, size, store_->allocate(size)});
  }
  const std::vector<KeptPart>& parts() const { return parts_; }  // by address
  uint64_t bytes() const;
  // The stream that uses the buffers last.
  void set_stream(Stream stream) { stream_ = stream; }

 private:
  void swap(KeptContents& other) noexcept {
    store_.swap(other.store_);
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    parts_.swap(other.parts_);
  }

  std::shared_ptr<ContentStore> store_;
  int device_ = 0;
  Stream stream_ = 0;
  std::vector<KeptPart> parts_;
};

inline uint64_t KeptContents::bytes() const {
  uint64_t sum = 0;
  for (const KeptPart& part : parts_) sum += part.size;
  return sum;
}

struct SleepingPool {
  // The numbers are those of CACHALOT_POOL_*.
  enum class State : int32_t {
    kFallingAsleep = 1,  // contents are saved, then pages go
    kAsleep = 2,
    kWaking = 3,  // pages come, and contents are copied back
  };

  State state = State::kFallingAsleep;
  std::map<Address, SleepingBlock> blocks;  // by address; those that are freed meanwhile leave
  std::vector<PageRun> runs;                // that were mapped, by address
  KeptContents kept;
  bool keeps_free_memory = false;  // kKeepAll

  uint64_t bytes() const;            // of the pages
  uint64_t allocated_bytes() const;  // of the blocks
};

inline uint64_t SleepingPool::bytes() const {
  uint64_t sum = 0;
  for (const PageRun& run : runs) sum += run.size();
  return sum;
}

inline uint64_t SleepingPool::allocated_bytes() const {
  uint64_t sum = 0;
  for (const auto& [address, block] : blocks) sum += block.size;
  return sum;
}

// How often pools of a device fell asleep and woke.
struct SleepCounts {
  uint64_t sleeps = 0;
  uint64_t wakes = 0;
};

// What sleeps of one pool, or of all pools of a device. Bytes. Not a part of Stats, whose figures are those of the
// reference.
struct SleepStats {
  int32_t state = 0;  // of a pool: SleepingPool::State; 0: it is awake
  uint64_t pools = 0;
  uint64_t blocks = 0;
  uint64_t allocated_bytes = 0;  // of the blocks
  uint64_t asleep_bytes = 0;     // of the pages that the driver has back
  uint64_t kept_bytes = 0;       // on the host
  uint64_t kept_buffers = 0;     // how many
  uint64_t num_sleeps = 0;       // since the allocator was made; of a device only
  uint64_t num_wakes = 0;
};

}  // namespace cachalot
