// SPDX-License-Identifier: MIT OR Apache-2.0
// What stands behind the opaque types of trace.h.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "cachalot/trace.h"
#include "handles.h"
#include "replay/replay.h"
#include "replay/trace.h"
#include "replay/trace_file.h"

struct cachalot_trace : cachalot::capi::Handle<cachalot::capi::HandleKind::kTrace> {
  explicit cachalot_trace(cachalot::Trace trace) : core(std::move(trace)) {}

  const cachalot::Trace core;
};

struct cachalot_replay : cachalot::capi::Handle<cachalot::capi::HandleKind::kReplay> {
  std::unique_ptr<cachalot_allocator> allocator;
  cachalot::ReplayResult result;
  uint64_t events = 0;
  // Null: the history was not kept.
  std::shared_ptr<const std::unordered_map<cachalot::ContextId, std::string>> context_texts;
};

namespace cachalot::capi {

// The caller's functions as the core calls them; what they report as failure is Error(kCallback).
ReadBytes read_through(cachalot_read_fn read, void* user_data);
WriteBytes write_through(cachalot_write_fn write, void* user_data);

}  // namespace cachalot::capi
