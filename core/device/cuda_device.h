// SPDX-License-Identifier: MIT OR Apache-2.0
// One device of the CUDA driver: what it is and can do, and how much of it this process may have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "device/cuda_library.h"
#include "device/device.h"
#include "device/device_cgroup.h"
#include "device/memory_budget.h"

namespace cachalot::cuda {

class Device {
 public:
  // capacity: bytes that the device is told to have; 0: what it has. cgroups: where the limits of control groups are;
  // nothing: they are not looked at. Throws Error(kDriverUnavailable) where the driver says nothing of the device.
  Device(const Library& library, int index, uint64_t capacity,
         const std::optional<CgroupPlace>& cgroups);

  bool has(int attribute) const;
  // Bytes that the device has for this process.
  uint64_t total_memory() const;
  // The driver's figures, down to what this process may have.
  void limit(uint64_t* free_bytes, uint64_t* total_bytes);
  bool is_nearly_full() const;  // the control group

  // Memory within the budget. ask: the driver's call, which gets where the address goes.
  template <class Ask>
  DriverCode obtain(uint64_t size, Address* address, Ask ask) {
    const auto ticket = budget.take(size);
    if (!ticket) return kDriverOutOfMemory;
    DeviceAddress got = 0;
    const DriverCode code = ask(&got);
    if (code != kSuccess) {
      budget.give_back(*ticket);
      return code;
    }
    budget.keep(*ticket, MemoryBudget::Kind::kAddress, got);
    *address = got;
    return kSuccess;
  }

  const DeviceOrdinal ordinal;
  const DeviceIdentity identity;
  const bool supports_rdma;  // of pages: network cards reach them
  MemoryBudget budget;

 private:
  uint64_t limited_total(uint64_t total, const std::optional<DeviceCgroup::Memory>& allowed) const;
  std::optional<DeviceCgroup::Memory> group_memory() const;

  const Library& library_;
  size_t total_memory_ = 0;  // bytes
  std::optional<DeviceCgroup> group_;
};

}  // namespace cachalot::cuda
