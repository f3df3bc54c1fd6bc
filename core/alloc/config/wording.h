// SPDX-License-Identifier: MIT OR Apache-2.0
// The parts of messages that name PyTorch, its variables or its functions, and what stands there for people who
// have no PyTorch. The numbers around them are the same.
#pragma once

#include <cstdint>

namespace cachalot {

enum class Texts : int32_t { kPyTorch, kOwn };

// One wording of each. A part is a sentence or less.
struct Wording {
  // The variable that has the option string.
  const char* config_variable;

  // Out of memory [core 16.2].
  const char* process_with_others;  // "... has 1.00 GiB memory in use"
  const char* owner;                // "allocated by ...", "reserved by ..."
  const char* expandable_advice;
  const char* source_gave_null;
  const char* async_limit;

  // The title of memory_summary.
  const char* summary_title;

  // Memory between processes.
  const char* handles_are_disabled;
  const char* no_driver_allocation;
  const char* future_version;
  const char* no_system_call;

  // Warnings and advice.
  const char* split_limit_issue;
  const char* pinned_pool_without_capture;
  const char* free_during_capture;
  const char* use_on_own_stream;
  const char* no_annotations;
};

const Wording& wording_of(Texts texts);

}  // namespace cachalot
