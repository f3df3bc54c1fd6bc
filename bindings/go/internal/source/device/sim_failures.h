// SPDX-License-Identifier: MIT OR Apache-2.0
// The failures that were ordered from the simulated driver.
#pragma once

#include <vector>

#include "device/device.h"
#include "device/sim_calls.h"

namespace cachalot {

// After `after` calls of these kinds the next `count` give `code`.
struct SimFailure {
  uint32_t calls = 0;
  DriverCode code = kDriverOutOfMemory;
  uint64_t after = 0;
  uint64_t count = 1;
};

class SimFailures {
 public:
  // Replaces one of the same kinds and code that is still to come.
  void order(const SimFailure& failure);

  // What a call of this kind gives now. Counts it: once for each failure that waits for such a
  // call, until one of them is due.
  DriverCode due(SimCall call) {
    return errors_.empty() && out_of_memory_.empty() ? kSuccess : count(call);
  }

 private:
  DriverCode count(SimCall call);
  static DriverCode count(std::vector<SimFailure>* failures, SimCall call);

  std::vector<SimFailure> errors_;
  std::vector<SimFailure> out_of_memory_;  // asked after all errors, as a device does
};

}  // namespace cachalot
