// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/request.h"

#include "base/text.h"

namespace cachalot {
namespace {

// As the reference prints a null pointer: without "0x".
std::string pointer_text(Address address) { return address == 0 ? "0" : hex_address(address); }

}  // namespace

Error invalid_pointer(Address address) {
  return Error(Status::kInvalidArgument, "invalid device pointer: " + pointer_text(address));
}

std::string annotation_error(Address address) {
  return "annotateMemory: no live allocation found at pointer " + pointer_text(address);
}

}  // namespace cachalot
