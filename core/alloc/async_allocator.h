// SPDX-License-Identifier: MIT OR Apache-2.0
// backend:cudaMallocAsync: requests go to the driver's stream-ordered pool, which does the caching
// (docs/behaviour/cuda-malloc-async.md, whose rule numbers are cited).
//
// Nothing is rounded, split or searched here: this keeps what the driver does not know, that is
// limits, the streams that use a block, and what a capture leaves to be done.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/hash_order.h"
#include "alloc/shared_state.h"
#include "base/assert.h"
#include "base/mutex.h"

namespace cachalot {

// Throws Error; any thread; one lock for all devices (1.3). pre: the driver supports memory pools,
// and every device exists. Private functions but free_quietly need the lock.
class AsyncAllocator {
 public:
  explicit AsyncAllocator(SharedState& shared);
  ~AsyncAllocator();  // gives back what the pools keep
  AsyncAllocator(const AsyncAllocator&) = delete;
  AsyncAllocator& operator=(const AsyncAllocator&) = delete;

  Address allocate(const Request& request);
  void free(Address address);
  void record_stream(Address address, Stream stream);
  BlockInfo block(Address address);
  uint64_t live_blocks();
  void free_all();

  void empty_cache(int device);
  void trim(int device, const TrimGoal& goal, uint64_t* released);
  uint64_t largest_block(int device, Stream current_stream);

  void set_memory_fraction(int device, double fraction);
  double memory_fraction(int device);
  void set_memory_limit(int device, uint64_t bytes);
  uint64_t memory_limit(int device);

  Stats stats(int device);
  void reset_peak_stats(int device);
  void reset_accumulated_stats();
  DeviceTotals totals(int device);

  void capture_begin();
  // current_stream: the captured one; without it, that of the capture's first request.
  void capture_end(std::optional<Stream> current_stream);

  void enable_peer_access(int device, int peer);
  void warn_of_annotation();
  std::string check();

 private:
  struct Block {
    uint64_t size = 0;
    Stream stream = 0;
    int device = 0;
    bool was_captured = false;  // made during a capture
    bool is_deferred = false;   // freed by the caller, not yet by us (3.5)
    HashOrder<Stream> uses;     // by other streams
  };
  using Blocks = std::unordered_map<Address, Block>;

  struct Device {
    bool is_prepared = false;
    Stream unifying_stream = 0;  // where blocks are freed that several streams used (1.2)
    uint64_t used = 0;           // bytes
    uint64_t limit = kUnlimited;
  };

  struct DeviceStream {
    int device;
    Stream stream;
    bool operator==(const DeviceStream&) const = default;
  };
  // The reference's, so that the standard table lists streams in its order.
  struct StreamHash {
    size_t operator()(const DeviceStream& s) const {
      return static_cast<size_t>(s.stream) + static_cast<size_t>(s.device);
    }
  };

  struct DeviceMemory {
    uint64_t available;
    uint64_t total;
  };

  // A block of largest_block's.
  struct Trial {
    int device;
    Stream stream;
    Address address;
  };

  Device& at(int device) {
    CACHALOT_ASSERT(1, device >= 0 && static_cast<size_t>(device) < devices_.size());
    return devices_[static_cast<size_t>(device)];
  }
  void require_success(DriverCode code);
  void raise_pending_error(int device);
  DeviceMemory device_memory(int device);
  uint64_t pool_attribute(int device, int32_t attribute);
  uint64_t graph_attribute(int device, int32_t attribute);
  Stat memory_stat(int device, int32_t pool_current, int32_t pool_high, int32_t graph_current,
                   int32_t graph_high);
  void prepare(int device);
  DriverCode ask_driver(const Request& request, Address* address);
  void require_range(const Request& request, Address address);
  void reserve_row();
  [[noreturn]] void throw_out_of_memory(const Request& request);
  [[noreturn]] static void throw_handed_out_twice(Address address, const Block& block);
  Blocks::iterator find_live(Address address);
  void defer_free(Address address, Block& block);
  void issue_deferred_frees();
  void issue_free(Blocks::iterator block);
  Stream wait_for_uses(const Block& block);
  void make_wait(int device, Stream waiting, Stream awaited);
  void free_quietly();

  SharedState& shared_;
  Driver& driver_;
  Mutex lock_{LockRank::kAsyncAllocator};
  std::vector<Device> devices_;
  Blocks blocks_;
  std::deque<Address> deferred_;       // in the order of their frees
  std::vector<Trial> refused_trials_;  // that the driver did not take back; the end tries again
  bool is_capturing_ = false;
  std::optional<Stream> capture_stream_;
  std::unordered_set<DeviceStream, StreamHash> freed_on_;  // during the capture (3.7)
};

}  // namespace cachalot
