// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/trace_comment.h"

#include <charconv>
#include <optional>
#include <utility>

#include "base/text.h"

namespace cachalot {
namespace {

constexpr std::string_view kCommentMark = "# ";
constexpr std::string_view kStack = "stack ";
constexpr std::string_view kModule = "module ";
constexpr std::string_view kLabel = "label ";

bool take(std::string_view* rest, std::string_view wanted) {
  if (!rest->starts_with(wanted)) return false;
  rest->remove_prefix(wanted.size());
  return true;
}

bool take_hex(std::string_view* rest, uint64_t* number) {
  const char* const end = rest->data() + rest->size();
  const auto [at, problem] = std::from_chars(rest->data(), end, *number, 16);
  if (problem != std::errc()) return false;
  rest->remove_prefix(static_cast<size_t>(at - rest->data()));
  return true;
}

bool parse_stack(std::string_view rest, Trace* trace) {
  RecordedStack stack{};
  if (!take_hex(&rest, &stack.context) || stack.context == kNoContext) return false;
  for (const char* before = " "; !rest.empty(); before = ";") {
    Address frame = 0;
    if (!take(&rest, before) || !take_hex(&rest, &frame)) return false;
    stack.frames.push_back(frame);
  }
  stack.modules = trace->modules.size();
  trace->stack_of_context.try_emplace(stack.context, trace->stacks.size());
  trace->stacks.push_back(std::move(stack));
  return true;
}

bool parse_module(std::string_view rest, Trace* trace) {
  RecordedModule module{};
  if (!take_hex(&rest, &module.begin) || !take(&rest, " ") || !take_hex(&rest, &module.end) ||
      !take(&rest, " ") || !take_hex(&rest, &module.offset) || !take(&rest, " "))
    return false;
  if (module.begin >= module.end || rest.empty()) return false;
  module.path = rest;
  trace->modules.push_back(std::move(module));
  return true;
}

// Nothing: a backslash stands before something else than itself or an n.
std::optional<std::string> unescape(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '\\') {
      plain += text[i];
      continue;
    }
    if (++i == text.size() || (text[i] != '\\' && text[i] != 'n')) return std::nullopt;
    plain += text[i] == 'n' ? '\n' : '\\';
  }
  return plain;
}

bool parse_label(std::string_view rest, Trace* trace) {
  ContextId context = kNoContext;
  if (!take_hex(&rest, &context) || context == kNoContext || !take(&rest, " ")) return false;
  std::optional<std::string> text = unescape(rest);
  if (!text) return false;
  trace->labels.try_emplace(context, std::move(*text));
  return true;
}

}  // namespace

std::string format_label_comment(ContextId context, std::string_view text) {
  std::string line = format("# label %llx ", static_cast<unsigned long long>(context));
  for (const char c : text.substr(0, kMaxLabelBytes)) {
    if (c == '\n' || c == '\\') line += '\\';
    line += c == '\n' ? 'n' : c;
  }
  return line + '\n';
}

bool parse_trace_comment(std::string_view line, Trace* trace) {
  if (!take(&line, kCommentMark)) return false;
  if (take(&line, kLabel)) return parse_label(line, trace);
  if (take(&line, kStack)) return parse_stack(line, trace);
  return !take(&line, kModule) || parse_module(line, trace);
}

}  // namespace cachalot
