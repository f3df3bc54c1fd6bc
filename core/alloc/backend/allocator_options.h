// SPDX-License-Identifier: MIT OR Apache-2.0
// The options that an allocator is made with.
#pragma once

#include <memory>
#include <string>

#include "alloc/config/debug_options.h"
#include "alloc/config/rules.h"
#include "alloc/config/serving_options.h"
#include "alloc/trace/contexts.h"
#include "alloc/trace/log.h"
#include "device/device.h"

namespace cachalot {

// The C layer fills it from a caller's options and the environment; from here on nothing reads the
// environment.
struct AllocatorOptions {
  std::shared_ptr<Driver> driver;
  std::string config;
  Rules rules;
  bool caching = true;  // false: as with PYTORCH_NO_CUDA_MEMORY_CACHING=1
  // With caching off: requests for tenants are served all the same, and counted for none.
  bool serves_tenants_uncached = false;
  bool shareable_pages = true;  // TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC
  // The auditor looks at everything after each call, which makes calls slower by orders of
  // magnitude.
  bool check_every_call = false;
  bool looks_in_stream_order = false;  // at events, by handle; a replay makes streams up for that
  bool track_labels = false;
  ServingOptions serving;
  DebugOptions debug;
  ContextSource context_source;
  LogSink log;
};

}  // namespace cachalot
