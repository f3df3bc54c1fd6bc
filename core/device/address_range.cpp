// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/address_range.h"

#include "base/text.h"

namespace cachalot {

const char* flaw_of_range(Address address, uint64_t size, uint64_t unit) {
  if (address == 0) return "0 is no address";
  if (address % unit != 0) return "memory begins at a multiple of 512";
  if (size == 0) return "no memory has 0 bytes";
  if (size > kLargestRange) return "no range has more than 2^47 bytes";
  if (address > kAddressEnd - size) return "memory ends below 2^63";
  return nullptr;
}

std::string range_text(Address address, uint64_t size) {
  return format("%llu bytes at 0x%llx", static_cast<unsigned long long>(size),
                static_cast<unsigned long long>(address));
}

}  // namespace cachalot
