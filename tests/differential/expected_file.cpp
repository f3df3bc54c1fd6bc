// SPDX-License-Identifier: MIT OR Apache-2.0
#include "expected_file.h"

#include <algorithm>
#include <utility>

#include "input_error.h"

namespace cachalot::differential {
namespace {

// The last of the statistics that every release prints.
constexpr std::string_view kLastStatistic = "= counters ";

std::string_view first_word(std::string_view line) {
  return line.substr(0, line.find_first_of(" \t"));
}

bool any_begins_with(std::span<const std::string_view> lines, std::string_view start) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](std::string_view line) { return line.starts_with(start); });
}

}  // namespace

ExpectedFile::ExpectedFile(std::string text) : text_(std::move(text)) {
  if (text_.empty()) throw InputError("is empty");
  parse();
  check_end();
}

void ExpectedFile::parse() {
  const auto line_count = static_cast<size_t>(std::count(text_.begin(), text_.end(), '\n'));
  // The operations refer to elements of expected_, which must not move.
  expected_.reserve(line_count);
  size_t line_number = 0;
  for (size_t start = 0; start < text_.size();) {
    line_number++;
    const size_t end = text_.find('\n', start);
    if (end == std::string::npos) throw InputError("the last line has no end", line_number);
    const std::string_view line = std::string_view(text_).substr(start, end - start);
    start = end + 1;
    if (line.empty()) throw InputError("an empty line", line_number);
    if (line.find('\0') != line.npos) throw InputError("a byte of value 0", line_number);
    if (line.front() != ' ') {
      add_operation(line, line_number);
      continue;
    }
    if (operations_.empty()) throw InputError("an indented line before any operation", line_number);
    expected_.push_back(line.substr(1));
    auto& lines = operations_.back().expected;
    lines = {expected_.data() + expected_.size() - lines.size() - 1, lines.size() + 1};
  }
}

void ExpectedFile::add_operation(std::string_view line, size_t line_number) {
  if (!operations_.empty() && operations_.back().word == kEnd) {
    throw InputError("an operation behind the end", line_number);
  }
  operations_.push_back({line, first_word(line), {}, line_number});
}

// A file that was cut off must not count as a shorter script.
void ExpectedFile::check_end() const {
  const Operation& last = operations_.back();
  const bool failed_at_start = any_begins_with(last.expected, "E init ");
  const bool has_statistics = last.word == kEnd && any_begins_with(last.expected, kLastStatistic);
  if (!failed_at_start && !has_statistics) {
    throw InputError("the file ends without its final statistics", last.line_number);
  }
}

std::string ExpectedFile::print() const {
  std::string text;
  text.reserve(text_.size());
  for (const Operation& operation : operations_) {
    text.append(operation.line).append("\n");
    for (const std::string_view line : operation.expected)
      text.append(" ").append(line).append("\n");
  }
  return text;
}

}  // namespace cachalot::differential
