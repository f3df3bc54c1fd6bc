// SPDX-License-Identifier: MIT OR Apache-2.0
// What an allocator takes from the environment; only the C layer reads it, the core never does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "alloc/config/debug_options.h"
#include "alloc/config/rules.h"
#include "alloc/config/serving_options.h"
#include "alloc/trace/log.h"

namespace cachalot::capi {

// The first of the three variables that is set, even if it is empty; "" if none is.
std::string environment_config();

// CACHALOT_PINNED_CONF; nothing if it is not set.
std::optional<std::string> environment_pinned_config();

// CACHALOT_RELEASE; 2.15 if it is not set.
Release environment_release();

// False: PYTORCH_NO_CUDA_MEMORY_CACHING is "1". A value that is neither "0" nor "1" is remarked on.
bool environment_caching(const LogSink& log);

// CACHALOT_DEBUG, a list such as "poison,redzones"; nothing if it is not set.
DebugOptions environment_debug();

// CACHALOT_POLICY; the reference's decisions if it is not set.
ServingOptions environment_policy();

// CACHALOT_TEXTS; the reference's if it is not set.
Texts environment_texts();

// CACHALOT_TRACE, the file of a recorder; "" if it is not set, or if the proxy of the driver records or serves the
// process: its recordings tell of the same blocks.
std::string environment_trace();
// CACHALOT_TRACE_KEEP, the bytes that it may take; 0 if it is not set.
uint64_t environment_trace_bytes();

// CACHALOT_OOM_DUMP, a folder; "" if it is not set.
std::string environment_oom_dump();

// False: TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC is "0".
bool environment_shareable_pages();

}  // namespace cachalot::capi
