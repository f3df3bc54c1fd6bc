// SPDX-License-Identifier: MIT OR Apache-2.0
// A simulated driver that keeps its calls, so that those of two allocators can be compared.
#pragma once

#include <string>
#include <vector>

#include "device/sim_driver.h"

namespace cachalot::policy_model {

// A call with its arguments; what it gave is the last of them.
struct Call {
  const char* name;
  uint64_t first = 0;
  uint64_t second = 0;
  uint64_t third = 0;
  DriverCode code = kSuccess;

  bool operator==(const Call&) const = default;
};

std::string text_of(const Call& call);

// Leaves out what changes nothing of memory and order: questions about captures and about memory.
class NotingDriver final : public SimDriver {
 public:
  explicit NotingDriver(uint64_t capacity) : SimDriver(SimOptions{.capacity = capacity}) {}

  std::vector<Call>& calls() { return calls_; }

  DriverCode reserve(int device, uint64_t size, Address* address) override;
  DriverCode unreserve(int device, Address address, uint64_t size) override;
  DriverCode create(int device, uint64_t size, HandleType type, bool rdma,
                    uint64_t* handle) override;
  DriverCode release(int device, uint64_t handle) override;
  DriverCode map(int device, Address address, uint64_t size, uint64_t handle) override;
  DriverCode unmap(int device, Address address, uint64_t size) override;
  DriverCode set_access(int device, Address address, uint64_t size, int accessing_device) override;
  DriverCode event_create(int device, uint64_t* event) override;
  DriverCode event_destroy(int device, uint64_t event) override;
  DriverCode event_record(int device, uint64_t event, Stream stream) override;
  DriverCode event_record_all(int device, uint64_t event) override;
  DriverCode event_query(int device, uint64_t event) override;
  DriverCode event_synchronize(int device, uint64_t event) override;
  DriverCode stream_synchronize(int device, Stream stream) override;
  DriverCode device_synchronize(int device) override;
  DriverCode stream_wait_event(int device, Stream stream, uint64_t event) override;

 private:
  DriverCode note(const char* name, DriverCode code, uint64_t first, uint64_t second = 0,
                  uint64_t third = 0);

  std::vector<Call> calls_;
};

}  // namespace cachalot::policy_model
