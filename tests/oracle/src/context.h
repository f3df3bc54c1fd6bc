// SPDX-License-Identifier: MIT OR Apache-2.0
// A history context: here the number of the script line in which it was captured.
#pragma once
#include <c10/core/CachingDeviceAllocator.h>

#include <memory>
#include <string>

namespace oracle {

// The line that runs now, counted from 1.
extern long script_line;

// What PyTorch calls for a context; null unless the script has asked for contexts.
std::shared_ptr<c10::GatheredContext> capture_context();

long line_of(const c10::GatheredContext& context);

// " line N" or " no line"; nothing unless the script has asked for contexts.
std::string context_suffix(const std::shared_ptr<c10::GatheredContext>& context);

}  // namespace oracle
