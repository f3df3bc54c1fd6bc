// SPDX-License-Identifier: MIT OR Apache-2.0
// Giving idle memory back.
#include "cachalot/trim.h"

#include <chrono>

#include "core_of.h"

namespace cachalot::capi {
namespace {

uint64_t monotonic_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_trim(cachalot_allocator* allocator, int32_t device, uint64_t keep_bytes,
                              uint64_t min_idle_ns, uint64_t* out_released_bytes,
                              cachalot_error* error) {
  return cachalot_trim_at(allocator, device, keep_bytes, min_idle_ns, monotonic_ns(),
                          out_released_bytes, error);
}

cachalot_status cachalot_trim_at(cachalot_allocator* allocator, int32_t device, uint64_t keep_bytes,
                                 uint64_t min_idle_ns, uint64_t now_ns,
                                 uint64_t* out_released_bytes, cachalot_error* error) {
  uint64_t released = 0;
  const cachalot_status status = guard(error, [&] {
    core_of(allocator).trim(device, {keep_bytes, min_idle_ns, now_ns}, &released);
  });
  if (out_released_bytes != nullptr) *out_released_bytes = released;
  return status;
}
