// SPDX-License-Identifier: MIT OR Apache-2.0
// What the simulated driver drives: devices with accounts instead of memory, and everything that
// time or chance decides on a real device under the caller's control.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/mutex.h"
#include "base/units.h"
#include "device/device.h"
#include "device/host_memory.h"
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

// Owns the state of all devices, the orders of the caller (failures, latencies, an error that is
// pending), and the log of calls. One lock guards all of it except the latencies.
class SimMachine {
 public:
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

  // Throws Error(kInvalidArgument) for a capacity or a number of devices that is not possible.
  explicit SimMachine(const SimOptions& options);

  // Controls, for any thread. Those with a device throw Error(kInvalidArgument) for a device that
  // the machine does not have.
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

  // For SimDriver. A driver call holds the lock from its beginning to its end, so that failures are
  // counted, and lines are logged, in the order of the calls. It waits out its latency before it
  // takes the lock, so that devices do not wait for each other.
  [[nodiscard]] Lock enter(SimCall call);
  [[nodiscard]] Lock enter() { return Lock(mutex_); }
  int device_count() const { return static_cast<int>(devices_.size()); }

  // The rest needs the lock.
  Device& at(int device) {
    mutex_.assert_held();
    CACHALOT_ASSERT(1, device >= 0 && device < device_count());
    return devices_[static_cast<size_t>(device)];
  }
  // What this call gives now (SimFailures::due, which counts it).
  DriverCode due(SimCall call) {
    mutex_.assert_held();
    return failures_.due(call);
  }
  SimLog& log() {
    mutex_.assert_held();
    return log_;
  }
  HostMemory& pinned_memory() {
    mutex_.assert_held();
    return pinned_memory_;
  }
  DriverCode take_pending_error() {
    mutex_.assert_held();
    return std::exchange(pending_error_, kSuccess);
  }

 private:
  // Both throw Error(kInvalidArgument).
  Device& checked(int device);
  Device& checked(int device, Stream stream);

  Mutex mutex_{LockRank::kSimMachine};
  std::vector<Device> devices_;  // as many as at creation
  SimFailures failures_;
  SimLatencies latencies_;  // atomic, read without the lock
  SimLog log_;
  DriverCode pending_error_ = kSuccess;
  HostMemory pinned_memory_{kUnlimited};
};

}  // namespace cachalot
