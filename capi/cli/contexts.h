// SPDX-License-Identifier: MIT OR Apache-2.0
// What the contexts of a trace mean: labels, or stacks of a program's calls.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cachalot/cachalot.h"

namespace cachalot::cli {

// Frames, the innermost first; of a label, its one text.
using ContextFrames = std::vector<std::string>;

struct ContextTexts {
  std::map<uint64_t, ContextFrames> frames;  // of those contexts that the trace tells of
  bool are_stacks = true;
};

// Names of functions are those that addr2line knows.
ContextTexts context_texts(const cachalot_trace* trace, const std::vector<uint64_t>& contexts);

}  // namespace cachalot::cli
