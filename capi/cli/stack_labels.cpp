// SPDX-License-Identifier: MIT OR Apache-2.0
#include "stack_labels.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "numbers.h"
#include "run.h"
#include "stack_report.h"
#include "symbols.h"
#include "trace_text.h"

namespace cachalot::cli {
namespace {

using Stacks = std::map<uint64_t, std::vector<cachalot_trace_frame>>;  // by context

// A line of a trace has room for it.
constexpr size_t kMostLabelBytes = size_t{1} << 16;

Stacks stacks_of(const cachalot_trace* trace) {
  std::set<uint64_t> contexts;
  for_each_event(trace, [&](const cachalot_trace_event& event) { contexts.insert(event.context); });
  Stacks stacks;
  for (const uint64_t context : contexts)
    if (auto frames = stack_of(trace, context); !frames.empty())
      stacks.emplace(context, std::move(frames));
  return stacks;
}

// "main at /src/server.c:42" as "/src/server.c:42:main".
std::string frame_line(const std::string& name) {
  const std::string between = " at ";
  const size_t at = name.rfind(between);
  if (at == std::string::npos) return name;
  return name.substr(at + between.size()) + ":" + name.substr(0, at);
}

std::string line_of(const cachalot_trace_frame& frame,
                    const std::map<CodePlace, std::string>& names) {
  const std::string path = frame.path;
  if (path.empty()) return hexadecimal(frame.address);
  const auto found = names.find({path, frame.file_offset});
  return found != names.end() ? frame_line(found->second)
                              : path + "+" + hexadecimal(frame.file_offset);
}

}  // namespace

std::string labels_of_stacks(const cachalot_trace* trace) {
  const Stacks stacks = stacks_of(trace);
  std::set<CodePlace> codes;
  for (const auto& [context, frames] : stacks) add_codes(frames, &codes);
  const std::map<CodePlace, std::string> names = names_of(codes);
  std::string labels;
  for (const auto& [context, frames] : stacks) {
    std::string text;
    for (const cachalot_trace_frame& frame : frames) {
      if (!text.empty()) text += '\n';
      text += line_of(frame, names);
    }
    append_label(&labels, context, std::string_view(text).substr(0, kMostLabelBytes));
  }
  return labels;
}

}  // namespace cachalot::cli
