// SPDX-License-Identifier: MIT OR Apache-2.0
// The way from a handle to the core.
#pragma once

#include "handles.h"

namespace cachalot::capi {

inline Allocator& core_of(cachalot_allocator* allocator) {
  return require(allocator, "allocator").core;
}

}  // namespace cachalot::capi
