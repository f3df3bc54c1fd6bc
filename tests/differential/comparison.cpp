// SPDX-License-Identifier: MIT OR Apache-2.0
#include "comparison.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace cachalot::differential {
namespace {

// ---- Errors -------------------------------------------------------------------------------------

constexpr std::string_view kErrorLine = "E ";
constexpr std::string_view kAtInit = "init ";
constexpr std::string_view kInternalAssertion = "INTERNAL ASSERT FAILED";
constexpr std::string_view kDriverError = "CUDA driver error";

struct ExpectedError {
  bool at_init;
  std::string_view kind;
  std::string_view text;
};

ExpectedError parse_error(std::string_view line) {
  line.remove_prefix(kErrorLine.size());
  const bool at_init = line.starts_with(kAtInit);
  if (at_init) line.remove_prefix(kAtInit.size());
  const size_t blank = std::min(line.find(' '), line.size());
  return {at_init, line.substr(0, blank), line.substr(std::min(blank + 1, line.size()))};
}

bool is_argument_kind(std::string_view kind) {
  constexpr std::array<std::string_view, 5> kKinds = {"value", "index", "type", "invalid_argument",
                                                      "out_of_range"};
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

bool is_missing_in_async(std::string_view text) {
  return text.find("does not yet support") != text.npos ||
         text.starts_with("Calling snapshot with backend:cudaMallocAsync");
}

// An `error` (RuntimeError) tells nothing of its cause, so both statuses of a wrong call are right
// for it. Which of them it is, by text:
//   INVALID_ARGUMENT  invalid device pointer (free), invalid fraction, Unknown TraceEntry action,
//                     Could not find pool of id, annotateMemory: no live allocation found,
//                     mallocWithAddress: addr must be aligned; assertions of the option string
//   NOT_SUPPORTED     what backend:cudaMallocAsync does not have
//   INVALID_STATE     beginAllocateToPool, endAllocatePool, Could not allocate CUDA storage at
//   exact
//                     address, Tensors allocated with expandable_segments:True, invalid device
//                     pointer (base allocation without caching); all other assertions
bool accepts(const ExpectedError& error, cachalot_status status) {
  if (error.kind == "oom") return status == CACHALOT_ERROR_OUT_OF_MEMORY;
  if (error.kind == "accelerator") return status == CACHALOT_ERROR_DRIVER;
  if (error.kind == "not_implemented") return status == CACHALOT_ERROR_NOT_SUPPORTED;
  if (is_argument_kind(error.kind)) return status == CACHALOT_ERROR_INVALID_ARGUMENT;
  if (error.kind != "error") return false;
  if (error.text.starts_with(kDriverError)) return status == CACHALOT_ERROR_DRIVER;
  if (is_missing_in_async(error.text)) return status == CACHALOT_ERROR_NOT_SUPPORTED;
  return status == CACHALOT_ERROR_INVALID_ARGUMENT || status == CACHALOT_ERROR_INVALID_STATE;
}

// The further lines of a driver's error advise on debugging PyTorch programs.
bool is_of_driver(const ExpectedError& error) {
  return error.kind == "accelerator" || error.text.starts_with(kDriverError);
}

std::string_view first_line(std::string_view text, std::string_view line_break) {
  return text.substr(0, text.find(line_break));
}

// ---- Out of memory ------------------------------------------------------------------------------

// Behind the reference's text the library puts a line of its own; not behind the one without state.
constexpr std::string_view kOutOfMemory = "CUDA out of memory. ";
constexpr std::string_view kMoreThanAll =
    "CUDA out of memory. Tried to allocate more than 1EB memory.";
constexpr std::string_view kOwnLine = "\ncachalot: ";

bool has_own_line(std::string_view expected) {
  return expected.starts_with(kOutOfMemory) && expected != kMoreThanAll;
}

// The reference's part of a message; nothing if our line is missing or is not the last one.
std::optional<std::string_view> without_own_line(std::string_view message) {
  const size_t start = message.rfind(kOwnLine);
  if (start == message.npos) return std::nullopt;
  const std::string_view own = message.substr(start + kOwnLine.size());
  if (own.empty() || own.find('\n') != own.npos) return std::nullopt;
  return message.substr(0, start);
}

std::string printed_message(std::string_view message, bool whole_text) {
  if (!whole_text) return std::string(first_line(message, "\n"));
  std::string printed;
  for (const char c : message) c == '\n' ? printed.append("\\n") : printed.append(1, c);
  return printed;
}

bool equal_errors(std::string_view expected, const Line& actual, ErrorRules rules) {
  const ExpectedError error = parse_error(expected);
  const bool is_assertion = error.text.find(kInternalAssertion) != error.text.npos;
  if (!actual.failure || actual.failure->at_init != error.at_init) return false;
  if (!accepts(error, actual.failure->status)) return false;
  if (rules.kind_only || is_assertion) return true;
  std::string_view text = actual.text;
  if (has_own_line(error.text)) {
    const std::optional<std::string_view> reference = without_own_line(text);
    if (!reference) return false;
    text = *reference;
  }
  const std::string message = printed_message(text, rules.whole_text);
  if (!is_of_driver(error)) return message == error.text;
  return first_line(message, "\\n") == first_line(error.text, "\\n");
}

// ---- Shared memory ------------------------------------------------------------------------------

constexpr std::string_view kShare = "# share ";

void blank(std::string* text, size_t first, size_t count) {
  for (size_t i = first; i < std::min(first + count, text->size()); i++) (*text)[i] = '0';
}

// The process that shares, and padding that PyTorch leaves as it finds it (U15), differ from run to run.
std::string without_process(std::string_view line) {
  std::string text(line);
  const size_t bytes = text.find(' ', kShare.size()) + 1;  // where the digits begin
  const std::string kind = text.substr(bytes, 4);
  if (kind != "0265" && kind != "0365") return text;
  blank(&text, bytes + 4, 16);
  if (kind == "0365") blank(&text, bytes + 4 + 2 * 28, 8);
  return text;
}

// ---- Contexts -----------------------------------------------------------------------------------

constexpr std::string_view kContext = " line ";

// A line of a report, cut at the number of its context.
struct ContextLine {
  std::string_view before;
  uint64_t number;
  std::string_view after;
};

bool may_have_context(std::string_view line) {
  constexpr std::array<std::string_view, 4> kStarts = {"# trace ", "# seg ", "# blk ",
                                                       "# context "};
  return std::any_of(kStarts.begin(), kStarts.end(),
                     [&](std::string_view start) { return line.starts_with(start); });
}

std::optional<ContextLine> cut_at_context(std::string_view line) {
  if (!may_have_context(line)) return std::nullopt;
  const size_t start = line.find(kContext);
  if (start == line.npos) return std::nullopt;
  const std::string_view tail = line.substr(start + kContext.size());
  uint64_t number = 0;
  const auto result = std::from_chars(tail.data(), tail.data() + tail.size(), number);
  if (result.ptr == tail.data() || result.ec != std::errc{}) return std::nullopt;
  const auto digits = static_cast<size_t>(result.ptr - tail.data());
  return ContextLine{line.substr(0, start), number, tail.substr(digits)};
}

}  // namespace

bool Comparison::equal_but_context(std::string_view expected, std::string_view actual) {
  const std::optional<ContextLine> wanted = cut_at_context(expected);
  const std::optional<ContextLine> found = cut_at_context(actual);
  if (!wanted || !found) return !wanted && !found && expected == actual;
  if (wanted->before != found->before || wanted->after != found->after) return false;
  if (!lines_left_out_ && wanted->number >= found->number)
    lines_left_out_ = wanted->number - found->number;
  return lines_left_out_ && wanted->number == found->number + *lines_left_out_;
}

bool Comparison::equal(std::string_view expected, const Line& actual, ErrorRules rules) {
  if (expected.starts_with(kErrorLine)) return equal_errors(expected, actual, rules);
  if (actual.failure) return false;
  if (expected.starts_with(kShare) && actual.text.starts_with(kShare))
    return without_process(expected) == without_process(actual.text);
  if (expected.starts_with('#')) return equal_but_context(expected, actual.text);
  return expected == actual.text;
}

std::optional<size_t> Comparison::first_difference(std::span<const std::string_view> expected,
                                                   std::span<const Line> actual, ErrorRules rules) {
  const size_t common = std::min(expected.size(), actual.size());
  for (size_t i = 0; i < common; i++) {
    if (!equal(expected[i], actual[i], rules)) return i;
  }
  if (expected.size() != actual.size()) return common;
  return std::nullopt;
}

std::string Comparison::show(const Line& line, ErrorRules rules) const {
  if (line.failure) {
    return std::string(kErrorLine) + (line.failure->at_init ? std::string(kAtInit) : "") +
           cachalot_status_name(line.failure->status) + " " +
           printed_message(line.text, rules.whole_text);
  }
  const std::optional<ContextLine> parts = cut_at_context(line.text);
  if (!parts) return line.text;
  return std::string(parts->before) + std::string(kContext) +
         decimal(parts->number + lines_left_out_.value_or(0)) + std::string(parts->after);
}

}  // namespace cachalot::differential
