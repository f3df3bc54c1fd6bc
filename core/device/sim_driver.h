// SPDX-License-Identifier: MIT OR Apache-2.0
// The simulated driver: accounts instead of memory, and everything that time or chance decides on a
// real device under the caller's control. Deterministic.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/mutex.h"
#include "base/units.h"
#include "device/device.h"
#include "device/sim_calls.h"
#include "device/sim_captures.h"
#include "device/sim_failures.h"
#include "device/sim_latencies.h"
#include "device/sim_log.h"
#include "device/sim_memory.h"
#include "device/sim_pool.h"
#include "device/sim_streams.h"

namespace cachalot {

struct SimOptions {
  uint64_t capacity = 80 * GiB;
  int device_count = 1;
};

// More would take whole gigabytes of bookkeeping, for address space alone.
inline constexpr uint64_t kLargestSimCapacity = 4096 * GiB;

// Returns the capacity; throws Error(kInvalidArgument) for one that is above the largest.
uint64_t checked_sim_capacity(uint64_t capacity);

class SimDriver : public Driver {
 public:
  // Throws Error(kInvalidArgument) for a capacity or a number of devices that is not possible.
  explicit SimDriver(const SimOptions& options = {});

  // Controls. Those with a device throw Error(kInvalidArgument) for one that there is not.
  void give_addresses(int device, std::span<const Address> addresses);
  void queue_work(int device, Stream stream);
  void finish_oldest(int device, Stream stream);
  void finish_stream(int device, Stream stream);
  void finish_device(int device);
  void fail(const SimFailure& failure);
  void set_pending_error(DriverCode code);
  void set_latency(uint32_t calls, uint64_t nanoseconds) { latencies_.set(calls, nanoseconds); }
  void add_process(int device, const DeviceProcess& process);
  // state: negative if the question shall fail. create_code: what creating with a fabric handle
  // gives.
  void set_fabric(int device, int32_t state, DriverCode create_code);
  void begin_capture(int device, Stream stream, uint64_t capture_id);
  void end_capture(int device, uint64_t capture_id);
  void add_node(int device, Stream stream);
  void fork_capture(int device, Stream from, Stream to);
  void join_capture(int device, Stream into, Stream other);
  void set_graph_memory(int device, uint64_t used, uint64_t reserved);
  void log_calls(uint32_t words);
  size_t take_calls(char* buffer, size_t capacity);  // as SimLog::take

  // The seam.
  const char* name() const override { return "sim"; }
  int device_count() const override { return static_cast<int>(devices_.size()); }
  bool supports_virtual_memory() const override { return true; }
  bool supports_memory_pools() const override { return true; }

  DriverCode memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) override;
  DriverCode allocate(int device, uint64_t size, Address* address) override;
  DriverCode free(int device, Address address) override;

  DriverCode reserve(int device, uint64_t size, Address* address) override;
  DriverCode unreserve(int device, Address address, uint64_t size) override;
  DriverCode granularity(int device, uint64_t* bytes) override;
  DriverCode create(int device, uint64_t size, HandleType type, bool rdma,
                    uint64_t* handle) override;
  DriverCode export_handle(int device, uint64_t handle, HandleType type,
                           ShareableHandle* out) override;
  DriverCode import_handle(int device, const ShareableHandle& shareable, HandleType type,
                           uint64_t* handle) override;
  DriverCode release(int device, uint64_t handle) override;
  DriverCode map(int device, Address address, uint64_t size, uint64_t handle) override;
  DriverCode unmap(int device, Address address, uint64_t size) override;
  DriverCode set_access(int device, Address address, uint64_t size, int accessing_device) override;
  DriverCode fabric_state(int device, int32_t* state) override;

  DriverCode event_create(int device, uint64_t* event) override;
  DriverCode event_destroy(int device, uint64_t event) override;
  DriverCode event_record(int device, uint64_t event, Stream stream) override;
  DriverCode event_query(int device, uint64_t event) override;
  DriverCode event_synchronize(int device, uint64_t event) override;
  DriverCode stream_synchronize(int device, Stream stream) override;
  DriverCode device_synchronize(int device) override;

  DriverCode capture_info(int device, Stream stream, CaptureInfo* info) override;
  DriverCode node_dependencies(int device, uint64_t node, std::vector<uint64_t>* nodes) override;
  DriverCode exchange_capture_mode(int device, int32_t* mode) override;

  DriverCode pool_allocate(int device, uint64_t size, Stream stream, Address* address) override;
  DriverCode pool_free(int device, Address address, Stream stream) override;
  DriverCode pool_trim(int device, uint64_t keep_bytes) override;
  DriverCode pool_get_attribute(int device, int32_t attribute, uint64_t* value) override;
  DriverCode pool_set_attribute(int device, int32_t attribute, uint64_t value) override;
  DriverCode pool_set_access(int device, int accessing_device) override;
  DriverCode graph_get_attribute(int device, int32_t attribute, uint64_t* value) override;
  DriverCode graph_set_attribute(int device, int32_t attribute, uint64_t value) override;
  DriverCode stream_create(int device, Stream* stream) override;
  DriverCode stream_wait_event(int device, Stream stream, uint64_t event) override;

  DriverCode enable_peer(int device, int peer) override;
  std::vector<DeviceProcess> processes(int device) override;
  DriverCode take_pending_error(int device) override;
  std::string error_text(DriverCode code) override;

 private:
  struct Device {
    SimMemory memory;
    SimStreams streams;
    SimCaptures captures;
    SimPool pool;
    std::vector<DeviceProcess> processes;
    int32_t fabric_state = 0;
    DriverCode fabric_create_code = kSuccess;
  };
  using Lock = std::unique_lock<Mutex>;
  using Hex = SimLog::Hex;
  using Outcome = SimLog::Outcome;

  // Handles of streams that are made here.
  static constexpr Stream kStreamBase = 0x500000;
  static constexpr Stream kStreamStep = 0x1000;

  // A call takes its time before it has the lock, so that devices do not wait for each other.
  [[nodiscard]] Lock enter(SimCall call);
  [[nodiscard]] Lock enter() { return Lock(mutex_); }
  Device& at(int device) {
    mutex_.assert_held();
    CACHALOT_ASSERT(1, device >= 0 && device < device_count());
    return devices_[static_cast<size_t>(device)];
  }
  Device& checked(int device);  // throws
  DriverCode create(Device& device, uint64_t size, HandleType type, uint64_t* handle);

  Mutex mutex_{LockRank::kSimDriver};
  std::vector<Device> devices_;
  SimFailures failures_;
  SimLatencies latencies_;
  SimLog log_;
  uint64_t handles_made_ = 0;
  uint64_t streams_made_ = 0;
  DriverCode pending_error_ = kSuccess;
  int32_t capture_mode_ = 0;
};

}  // namespace cachalot
