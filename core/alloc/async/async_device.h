// SPDX-License-Identifier: MIT OR Apache-2.0
// One device of backend:cudaMallocAsync: the driver's default pool, and two numbers that the driver
// does not know: the limit and the bytes in use.
#pragma once

#include <optional>
#include <vector>

#include "alloc/async/async_capture.h"
#include "alloc/backend/backend.h"
#include "alloc/backend/shared_state.h"
#include "base/assert.h"
#include "base/mutex.h"

namespace cachalot {

// Owns the unifying stream and the numbers of one device; the memory belongs to the driver's
// default pool of the device. Invariant: a device that was never prepared has no blocks, so it has
// nothing to wait for at the end.
class AsyncDevice final : public DeviceBackend {
 public:
  // lock: guards all devices and blocks of the backend [async 1.3]; the calls of DeviceBackend take
  // it.
  AsyncDevice(SharedState& shared, int device, Mutex& lock, AsyncCapture& capture);

  void empty_cache(PoolId pool, std::optional<Stream> current_stream) override;
  void release_context() override;  // throws: a stream of its own joins all others
  uint64_t largest_block(uint64_t at_least, Stream current_stream) override;
  void trim(const TrimGoal& goal, uint64_t* released) override;

  void set_memory_fraction(double fraction) override;
  double memory_fraction() override;
  void set_memory_limit(uint64_t bytes) override;
  uint64_t memory_limit() override;
  void give_peer_access(int peer) override;

  Stats stats() override;
  void reset_peak_stats() override;
  void reset_accumulated_stats() override;
  DeviceTotals totals() override;

  void pool_begin(PoolId id, PoolFilter filter) override;
  void pool_end(PoolId id, std::optional<Stream> current_stream) override;

  // ---- For AsyncBackend, which holds the lock

  bool is_prepared() const { return is_prepared_; }
  void prepare();  // does nothing the second time
  // Both throw out of memory.
  void require_within_limit(const Request& request);
  Address allocate(const Request& request);
  // The stream on which a block can be freed that was made on one stream and used on others.
  Stream stream_after(Stream created_on, const std::vector<Stream>& uses);

  uint64_t used() const { return used_; }
  void count(uint64_t size) { used_ += size; }
  void uncount(uint64_t size) {
    CACHALOT_ASSERT(1, size <= used_);
    used_ -= size;
  }
  // pre: all blocks have gone back to the driver. Ignores errors.
  void forget_blocks();
  void close();

 private:
  // Bytes.
  struct DeviceMemory {
    uint64_t available;
    uint64_t total;
  };

  // A block of largest_block's.
  struct Trial {
    Stream stream;
    Address address;
  };

  DeviceMemory device_memory();
  // Throw where the driver refuses the question.
  uint64_t pool_attribute(int32_t attribute);
  uint64_t graph_attribute(int32_t attribute);
  Stat memory_stat(int32_t pool_current, int32_t pool_high, int32_t graph_current,
                   int32_t graph_high);
  DriverCode ask_driver(const Request& request, Address* address);
  // Throws for an address that no memory can have, after giving the memory back.
  void require_range(const Request& request, Address address);
  [[noreturn]] void throw_out_of_memory(const Request& request);
  bool free_refused_trials();

  SharedState& shared_;
  Driver& driver_;
  const int device_;
  Mutex& lock_;
  AsyncCapture& capture_;
  bool is_prepared_ = false;
  Stream unifying_stream_ = 0;  // where blocks are freed that several streams used [async 1.2]
  uint64_t used_ = 0;           // bytes
  uint64_t limit_ = kUnlimited;
  // That the driver did not take back. A request that would fail, empty_cache() and the end try again.
  std::vector<Trial> refused_trials_;
};

}  // namespace cachalot
