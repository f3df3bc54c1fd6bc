// SPDX-License-Identifier: MIT OR Apache-2.0
// What an allocator takes from the environment; only the C layer reads it, the core never does.
#pragma once

#include <string>

#include "alloc/config/debug_options.h"
#include "alloc/config/rules.h"
#include "alloc/config/serving_options.h"
#include "alloc/trace/log.h"

namespace cachalot::capi {

// The first of the three variables that is set, even if it is empty; "" if none is.
std::string environment_config();

// CACHALOT_RELEASE; 2.15 if it is not set.
Release environment_release();

// False: PYTORCH_NO_CUDA_MEMORY_CACHING is "1". A value that is neither "0" nor "1" is remarked on.
bool environment_caching(const LogSink& log);

// CACHALOT_DEBUG, a list such as "poison,redzones"; nothing if it is not set.
DebugOptions environment_debug();

// CACHALOT_POLICY; the reference's decisions if it is not set.
ServingOptions environment_policy();

// False: TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC is "0".
bool environment_shareable_pages();

}  // namespace cachalot::capi
