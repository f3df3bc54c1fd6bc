// SPDX-License-Identifier: MIT OR Apache-2.0
// The end of a request without memory [core 16]: the reference's text, a line of the library's own behind
// it, the observers, the error.
#pragma once

#include <string>

#include "alloc/native/alloc_params.h"
#include "alloc/native/device_state.h"
#include "alloc/shards/device_lock.h"
#include "alloc/stats/stats.h"

namespace cachalot {

class FailedRequest : private DeviceOperation {
 public:
  // The lock has the whole device. Every function unlocks it, and then calls the observers.
  FailedRequest(DeviceState& device, const AllocParams& params, DeviceLock& lock)
      : DeviceOperation(device), params_(params), lock_(lock) {
    CACHALOT_ASSERT(1, lock_.is_whole());
  }

  [[noreturn]] void throw_out_of_memory();
  // The limit of the option refused before the driver was asked (R31).
  [[noreturn]] void throw_rejected();
  // A tenant was not granted the bytes.
  [[noreturn]] void throw_refused(std::string text);

 private:
  [[noreturn]] void throw_out_of_memory(const OutOfMemory& numbers, std::string text);
  std::string reserve_advice(uint64_t total);
  OutOfMemory take_numbers();
  std::string text_of(const OutOfMemory& numbers);

  const AllocParams& params_;
  DeviceLock& lock_;
};

}  // namespace cachalot
