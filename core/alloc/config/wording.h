// SPDX-License-Identifier: MIT OR Apache-2.0
// The parts of messages that name PyTorch, its variables or its functions, and what stands there for people who
// have no PyTorch. The numbers around them are the same.
#pragma once

#include <cstdint>

namespace cachalot {

enum class Texts : int32_t { kPyTorch, kOwn };

// One wording of each. A part is a sentence or less, and stands where its comment says.
struct Wording {
  // The variable that has the option string.
  const char* config_variable;

  // Out of memory [core 16.2].
  // Before "has 1.00 GiB memory in use".
  const char* process_with_others;
  // Behind "allocated by" and "reserved by".
  const char* owner;
  // The end of the text where no expandable segments are on.
  const char* expandable_advice;
  // Likewise for a pool with a source of its own.
  const char* source_gave_null;
  // A row of the text of backend:cudaMallocAsync.
  const char* async_limit;

  // The title of memory_summary.
  const char* summary_title;

  // Memory between processes.
  // Pages have no handles, since shareable_pages is off.
  const char* handles_are_disabled;
  // A handle of the driver is asked for where there are pages.
  const char* no_driver_allocation;
  // The handle's version is unknown.
  const char* future_version;
  // Behind the name of the call that the kernel refuses.
  const char* no_system_call;

  // Warnings and advice.
  // In the advice against two options that harm each other.
  const char* split_limit_issue;
  // A pool of pinned memory is begun without a capture.
  const char* pinned_pool_without_capture;
  // backend:cudaMallocAsync: a free in a capture of a block from before it.
  const char* free_during_capture;
  // A use that is recorded on the block's own stream.
  const char* use_on_own_stream;
  // Annotations are kept by the native backend only.
  const char* no_annotations;
};

const Wording& wording_of(Texts texts);

}  // namespace cachalot
