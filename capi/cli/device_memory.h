// SPDX-License-Identifier: MIT OR Apache-2.0
// What devices have in use, by NVIDIA's management library (NVML), as nvidia-smi shows it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace cachalot::cli {

struct DeviceBytes {
  std::string gpu_uuid;
  uint64_t total = 0;
  uint64_t used = 0;
  uint64_t used_before = 0;  // when this object was made
};

class DeviceMemory {
 public:
  // Without the library nothing is known of any device.
  DeviceMemory();
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // The device at this place on the PCI bus ("0000:1a:00.0").
  std::optional<DeviceBytes> at(const std::string& bus) const;

 private:
  struct Functions;

  void* library_ = nullptr;
  std::unique_ptr<const Functions> functions_;  // null: there is no library
  std::map<void*, uint64_t> used_before_;
};

}  // namespace cachalot::cli
