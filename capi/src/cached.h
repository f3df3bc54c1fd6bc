// SPDX-License-Identifier: MIT OR Apache-2.0
// What the cache serves at once, without the driver: for libcachalot_pluggable.so, which holds the lock of Python's
// interpreter then, and gives it up for everything else. Neither waits for a thread that calls the driver, since the
// driver may wait for that lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cachalot/allocator.h"

namespace cachalot::capi {

// 0: the cache has no such block at hand, or another thread has the cache, and nothing has changed.
cachalot_address allocate_cached(cachalot_allocator* allocator, uint64_t size, int32_t device,
                                 cachalot_stream stream);

// False: more is to be done than to put the block into the cache, or another thread has it, and nothing has changed.
bool free_cached(cachalot_allocator* allocator, cachalot_address address);

}  // namespace cachalot::capi
