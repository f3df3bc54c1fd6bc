// SPDX-License-Identifier: MIT OR Apache-2.0
// What the kernel's controller of device memory (dmem, since Linux 6.14) lets this process have of one device: the
// limits of its control group and of all groups above it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cachalot {

// Where control groups (version 2) are, and the file that says which one is the process's.
struct CgroupPlace {
  std::string root = "/sys/fs/cgroup";
  std::string membership = "/proc/self/cgroup";
};

class DeviceCgroup {
 public:
  struct Memory {
    uint64_t limit;  // bytes: the lowest of all groups
    uint64_t left;   // until a group is full; 0 for one that is above its limit
  };

  // The device by its place on the PCI bus ("0000:1a:00.0"). The groups are those that the process is in now.
  DeviceCgroup(const std::string& pci_bus_id, const CgroupPlace& place);

  // Read anew at each call. Nothing where no group limits the device: without the controller, for a device whose
  // driver does not register its memory with it, and where the limit is "max".
  std::optional<Memory> memory() const;

 private:
  std::optional<uint64_t> bytes_in(const std::string& file) const;

  std::string device_;                // by its plain bus id
  std::vector<std::string> folders_;  // from the process's own group upwards
};

}  // namespace cachalot
