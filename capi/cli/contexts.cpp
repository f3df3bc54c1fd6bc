// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contexts.h"

#include <set>
#include <sstream>

#include "failure.h"
#include "stack_report.h"
#include "symbols.h"

namespace cachalot::cli {
namespace {

// Lines; one of a label, several of a stack that a history has described; none if the trace tells nothing.
ContextFrames lines_of(const cachalot_trace* trace, uint64_t context) {
  size_t length = 0;
  check(cachalot_trace_context_text(trace, context, nullptr, 0, &length));
  std::string text(length + 1, '\0');
  check(cachalot_trace_context_text(trace, context, text.data(), text.size(), &length));
  text.resize(length);
  ContextFrames lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

ContextTexts context_texts(const cachalot_trace* trace, const std::vector<uint64_t>& contexts) {
  ContextTexts texts;
  std::map<uint64_t, std::vector<cachalot_trace_frame>> stacks;
  std::set<CodePlace> codes;
  bool is_label = false;
  for (const uint64_t context : contexts) {
    auto stack = stack_of(trace, context);
    add_codes(stack, &codes);
    if (!stack.empty()) {
      stacks.emplace(context, std::move(stack));
      continue;
    }
    ContextFrames lines = lines_of(trace, context);
    is_label = is_label || lines.size() == 1;
    if (!lines.empty()) texts.frames[context] = std::move(lines);
  }
  const auto names = codes.empty() ? std::map<CodePlace, std::string>() : names_of(codes);
  texts.are_stacks = !is_label;
  for (const auto& [context, stack] : stacks)
    for (const cachalot_trace_frame& frame : stack)
      texts.frames[context].push_back(frame_text(frame, names));
  return texts;
}

}  // namespace cachalot::cli
