// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contexts.h"

#include <set>

#include "stack_report.h"
#include "symbols.h"

namespace cachalot::cli {

std::map<uint64_t, ContextFrames> frames_of(const cachalot_trace* trace,
                                            const std::vector<uint64_t>& contexts) {
  std::map<uint64_t, std::vector<cachalot_trace_frame>> stacks;
  std::set<CodePlace> codes;
  for (const uint64_t context : contexts) {
    auto stack = stack_of(trace, context);
    for (const cachalot_trace_frame& frame : stack)
      if (*frame.path != '\0') codes.emplace(frame.path, frame.file_offset);
    if (!stack.empty()) stacks.emplace(context, std::move(stack));
  }
  const auto names = codes.empty() ? std::map<CodePlace, std::string>() : names_of(codes);
  std::map<uint64_t, ContextFrames> all;
  for (const auto& [context, stack] : stacks)
    for (const cachalot_trace_frame& frame : stack)
      all[context].push_back(frame_text(frame, names));
  return all;
}

}  // namespace cachalot::cli
