// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/trace.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace cachalot {

std::optional<Release> TraceHeader::release() const {
  for (const Release release : {Release::k2_11, Release::k2_15}) {
    const std::string_view two_numbers = release_name(release);
    if (torch.substr(0, two_numbers.size()) != two_numbers) continue;
    if (torch.size() == two_numbers.size() || torch[two_numbers.size()] == '.') return release;
  }
  return {};
}

int64_t TraceHeader::stat(std::string_view name) const {
  const auto found = std::find_if(stats.begin(), stats.end(),
                                  [name](const RecordedStat& stat) { return stat.name == name; });
  return found != stats.end() ? found->value : 0;
}

const RecordedStack* Trace::stack_of(ContextId context) const {
  const auto found = stack_of_context.find(context);
  return found == stack_of_context.end() ? nullptr : &stacks[found->second];
}

// A later line takes the place of an earlier one that it overlaps.
const RecordedModule* Trace::module_at(const RecordedStack& stack, Address address) const {
  for (size_t i = stack.modules; i-- > 0;)
    if (modules[i].begin <= address && address < modules[i].end) return &modules[i];
  return nullptr;
}

std::string Trace::context_text(ContextId context) const {
  if (const auto label = labels.find(context); label != labels.end()) return label->second;
  const RecordedStack* const stack = stack_of(context);
  std::string text;
  for (const Address frame : stack == nullptr ? std::vector<Address>{} : stack->frames) {
    const RecordedModule* const module = module_at(*stack, frame);
    if (!text.empty()) text += '\n';
    text += module == nullptr
                ? hex_address(frame)
                : module->path + "+" + hex_address(frame - module->begin + module->offset);
  }
  return text;
}

size_t Trace::line_of(size_t event_index) const {
  const auto behind = std::upper_bound(comments.begin(), comments.end(), event_index);
  return event_index + 2 + static_cast<size_t>(behind - comments.begin());
}

std::string line_name(size_t line) {
  const std::string digits = std::to_string(line);
  std::string name = "line ";
  for (size_t i = 0; i < digits.size(); i++) {
    if (i > 0 && (digits.size() - i) % 3 == 0) name += ',';
    name += digits[i];
  }
  return name;
}

}  // namespace cachalot
