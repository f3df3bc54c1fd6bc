// SPDX-License-Identifier: MIT OR Apache-2.0
// Which ranges of addresses can be memory: what callers' drivers and sources name is looked at
// before anything is computed with it.
#pragma once

#include <string>

#include "base/units.h"
#include "device/device.h"

namespace cachalot {

// The upper half belongs to the system, wherever there are devices. So no end of a range and no sum
// of sizes of ranges that lie apart leaves a signed number.
inline constexpr Address kAddressEnd = Address{1} << 63;
// The address space of a process.
inline constexpr uint64_t kLargestRange = uint64_t{1} << 47;

// What is wrong with it; null: it can be memory. unit: what it has to begin at a multiple of.
const char* flaw_of_range(Address address, uint64_t size, uint64_t unit = 1);

inline bool is_range(Address address, uint64_t size, uint64_t unit = 1) {
  return flaw_of_range(address, size, unit) == nullptr;
}

// "512 bytes at 0x7f0000000200".
std::string range_text(Address address, uint64_t size);

}  // namespace cachalot
