// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contexts.h"

#include <set>

#include "stack_report.h"
#include "symbols.h"

namespace cachalot::cli {
namespace {

// "" if the trace tells of none.
std::string label_of(const cachalot_trace*, uint64_t) {
  return "";  // no trace format has labels yet
}

}  // namespace

ContextTexts context_texts(const cachalot_trace* trace, const std::vector<uint64_t>& contexts) {
  ContextTexts texts;
  std::map<uint64_t, std::vector<cachalot_trace_frame>> stacks;
  std::set<CodePlace> codes;
  for (const uint64_t context : contexts) {
    auto stack = stack_of(trace, context);
    for (const cachalot_trace_frame& frame : stack)
      if (*frame.path != '\0') codes.emplace(frame.path, frame.file_offset);
    const std::string label = stack.empty() ? label_of(trace, context) : "";
    if (!label.empty()) texts.frames[context] = {label};
    if (!stack.empty()) stacks.emplace(context, std::move(stack));
  }
  const auto names = codes.empty() ? std::map<CodePlace, std::string>() : names_of(codes);
  texts.are_stacks = texts.frames.empty();
  for (const auto& [context, stack] : stacks)
    for (const cachalot_trace_frame& frame : stack)
      texts.frames[context].push_back(frame_text(frame, names));
  return texts;
}

}  // namespace cachalot::cli
