// SPDX-License-Identifier: MIT OR Apache-2.0
// The hash that the reference computes of a stream and its device (heap/hash_order.h).
#pragma once

#include <cstdint>

#include "device/device.h"

namespace cachalot {

constexpr uint64_t stream_hash(int device, Stream stream) {
  constexpr uint64_t kDeviceType = 1;  // CUDA
  constexpr unsigned kStreamBits = 48;
  return kDeviceType << 56 | static_cast<uint64_t>(device) << kStreamBits |
         (stream & ((uint64_t{1} << kStreamBits) - 1));
}

}  // namespace cachalot
