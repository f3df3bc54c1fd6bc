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
  const char* expandable_advice;    // ends the text where no expandable segments are on
  const char* source_gave_null;     // for a pool with a source of its own
  const char* async_limit;          // a row of the text of backend:cudaMallocAsync

  // The title of memory_summary.
  const char* summary_title;

  // Memory between processes.
  const char* handles_are_disabled;  // shareable_pages is off
  const char* no_driver_allocation;  // a handle of the driver is asked for where there are pages
  const char* future_version;
  const char* no_system_call;  // behind the name of the call that the kernel refuses

  // Warnings and advice.
  const char* split_limit_issue;  // in the advice against two options that harm each other
  const char* pinned_pool_without_capture;
  const char* free_during_capture;
  const char* use_on_own_stream;
  const char* no_annotations;
};

const Wording& wording_of(Texts texts);

}  // namespace cachalot
