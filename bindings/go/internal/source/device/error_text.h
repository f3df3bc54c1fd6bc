// SPDX-License-Identifier: MIT OR Apache-2.0
// Words for driver codes, for drivers that have none of their own.
#pragma once

#include "device/device.h"

namespace cachalot {

// "out of memory"; "error" for a code that the library does not know.
const char* common_error_text(DriverCode code);

}  // namespace cachalot
