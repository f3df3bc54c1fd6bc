// SPDX-License-Identifier: MIT OR Apache-2.0
#include "stack_labels.h"

#include <map>
#include <set>
#include <vector>

#include "held_memory.h"
#include "numbers.h"
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
  cachalot_trace_frame frame{};
  frame.struct_size = sizeof frame;
  for (const uint64_t context : contexts)
    for (size_t i = 0; cachalot_trace_get_frame(trace, context, i, &frame) == CACHALOT_OK; i++)
      stacks[context].push_back(frame);
  return stacks;
}

std::set<CodePlace> places_of_stacks(const Stacks& stacks) {
  std::set<CodePlace> places;
  for (const auto& [context, frames] : stacks)
    for (const cachalot_trace_frame& frame : frames)
      if (*frame.path != '\0') places.emplace(frame.path, frame.file_offset);
  return places;
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
  const std::map<CodePlace, std::string> names = names_of(places_of_stacks(stacks));
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
