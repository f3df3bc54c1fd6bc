// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/error_text.h"

namespace cachalot {

const char* common_error_text(DriverCode code) {
  switch (code) {
    case kInvalidValue:
      return "invalid argument";
    case kDriverOutOfMemory:
      return "out of memory";
    case kInvalidHandle:
      return "invalid resource handle";
    case 800:
      return "operation not permitted";
    case kDriverNotSupported:
      return "operation not supported";
    default:
      return "error";
  }
}

}  // namespace cachalot
