// SPDX-License-Identifier: MIT OR Apache-2.0
// The errors of calls that a driver refused, with the texts of the reference.
#pragma once

#include "base/error.h"
#include "device/device.h"

namespace cachalot {

// Of the driver's interface: "CUDA driver error: operation not permitted".
Error driver_error(Driver& driver, DriverCode code);
// Of the runtime's: "CUDA error: invalid argument".
Error runtime_error(Driver& driver, DriverCode code);

// Throws the error of a call of the runtime that failed.
inline void require_success(Driver& driver, DriverCode code) {
  if (code != kSuccess) [[unlikely]]
    throw runtime_error(driver, code);
}

}  // namespace cachalot
