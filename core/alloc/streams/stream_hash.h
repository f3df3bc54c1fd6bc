// SPDX-License-Identifier: MIT OR Apache-2.0
// The streams that use a block, in the order in which the reference's hash table lists them: it records the events of
// one block in that order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "alloc/heap/hash_order.h"
#include "device/device.h"

namespace cachalot {

// The hash that the reference computes of a stream and its device.
constexpr uint64_t stream_hash(int device, Stream stream) {
  constexpr uint64_t kDeviceType = 1;  // CUDA
  constexpr unsigned kStreamBits = 48;
  return kDeviceType << 56 | static_cast<uint64_t>(device) << kStreamBits |
         (stream & ((uint64_t{1} << kStreamBits) - 1));
}

// device_of: gives the device of a use's stream. Throws std::bad_alloc; nothing has changed then.
template <class Use, class DeviceOf>
void order_as_reference(std::vector<Use>& uses, DeviceOf device_of) {
  HashOrder<size_t> order;  // of places in uses
  for (size_t i = 0; i < uses.size(); i++)
    order.insert(i, stream_hash(device_of(uses[i]), uses[i].stream));
  std::vector<Use> ordered;
  for (const size_t i : order.keys()) ordered.push_back(uses[i]);
  uses.swap(ordered);
}

}  // namespace cachalot
