// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/driver_error.h"

namespace cachalot {

Error driver_error(Driver& driver, DriverCode code) {
  return Error(code, "CUDA driver error: " + driver.error_text(code));
}

Error runtime_error(Driver& driver, DriverCode code) {
  return Error(code, "CUDA error: " + driver.error_text(code));
}

}  // namespace cachalot
