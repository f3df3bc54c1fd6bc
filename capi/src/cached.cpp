// SPDX-License-Identifier: MIT OR Apache-2.0
#include "cached.h"

#include "alloc/native/hot_path.h"
#include "handles.h"

namespace cachalot::capi {

cachalot_address allocate_cached(cachalot_allocator* allocator, uint64_t size, int32_t device,
                                 cachalot_stream stream) {
  [[maybe_unused]] const LockScope scope{};
  const auto* const live = live_or_null(allocator);
  return live ? live->core.hits().try_allocate<Waiting::kForbidden>(size, device, stream) : 0;
}

bool free_cached(cachalot_allocator* allocator, cachalot_address address) {
  [[maybe_unused]] const LockScope scope{};
  const auto* const live = live_or_null(allocator);
  return live && live->core.hits().try_free<Waiting::kForbidden>(address);
}

}  // namespace cachalot::capi
