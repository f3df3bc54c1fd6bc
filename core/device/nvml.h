// SPDX-License-Identifier: MIT OR Apache-2.0
// What the management library (NVML) knows of devices and the driver does not: the processes on
// them, and whether they are part of a fabric. Without the library there is no answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"
#include "device/fork_mark.h"
#include "device/nvml_api.h"

namespace cachalot {

class Nvml {
 public:
  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Devices are named by their place on the PCI bus ("0000:1a:00.0"), in the library's order.
  std::vector<DeviceProcess> processes(const std::string& pci_bus_id);
  // Nothing if the library does not say.
  std::optional<bool> is_part_of_fabric(const std::string& pci_bus_id);

 private:
  struct Functions;

  // Opens the library at the first question; null if there is none.
  const Functions* functions();
  static nvml::Device device(const Functions& functions, const std::string& pci_bus_id);

  const ForkMark fork_mark_;  // in a child the library is not shut down: it is the parent's
  Mutex lock_{LockRank::kNvml};
  bool has_tried_ = false;
  std::unique_ptr<const Functions> functions_;
};

}  // namespace cachalot
