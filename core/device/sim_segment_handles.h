// SPDX-License-Identifier: MIT OR Apache-2.0
// Segments of the simulated driver between processes, which are all this one: a handle is the address of its segment.
#pragma once

#include "device/device.h"
#include "device/sim_machine.h"

namespace cachalot {

// 64 bytes that begin with a name, of a page or a segment.
ShareableHandle sim_handle(uint64_t name, uint8_t filling);

// Each call takes the machine's lock and leaves its line in the log.
class SimSegmentHandles final : public SegmentHandles {
 public:
  explicit SimSegmentHandles(SimMachine& machine) : machine_(machine) {}

  DriverCode get(int device, Address address, ShareableHandle* handle) override;
  DriverCode open(int device, const ShareableHandle& handle, Address* address) override;
  DriverCode close(int device, Address address) override;

 private:
  SimMachine& machine_;
};

}  // namespace cachalot
