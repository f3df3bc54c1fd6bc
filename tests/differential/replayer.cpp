// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replayer.h"

#include <algorithm>
#include <utility>

#include "input_error.h"
#include "script_setup.h"

namespace cachalot::differential {
namespace {

constexpr std::string_view kHipVariable = "PYTORCH_HIP_ALLOC_CONF";

}  // namespace

Replayer::Replayer(const ExpectedFile& file, ReplayOptions options, Tally& tally)
    : file_(file), options_(options), tally_(tally) {}

// ---- Before anything runs -----------------------------------------------------------------------

void Replayer::look_up_operations() {
  kinds_.clear();
  kinds_.reserve(file_.operations().size());
  for (const Operation& operation : file_.operations()) {
    const OperationKind* kind = find_operation_kind(operation.word);
    if (kind == nullptr) {
      throw InputError("unknown operation '" + std::string(operation.word) + "'",
                       operation.line_number);
    }
    if (kind->since > options_.release) {
      throw InputError(
          "operation '" + std::string(operation.word) + "' is not known to this release",
          operation.line_number);
    }
    kinds_.push_back(kind);
  }
}

std::string Replayer::find_exemption() const {
  const auto& environment = setup_.library.environment;
  const auto is_hip = [](const auto& variable) { return variable.first == kHipVariable; };
  const bool found = std::any_of(environment.begin(), environment.end(), is_hip);
  return found ? std::string(kHipVariable) + " is not read" : "";
}

// What only an observer or a recorded history shows.
static bool is_of_history(std::string_view line) {
  return line.starts_with("T ") || line.starts_with("# trace ");
}

Verdict Replayer::run() {
  look_up_operations();
  setup_ = read_setup(file_.operations());
  setup_.library.release = options_.release;
  setup_.library.unobserved = options_.unobserved;
  Verdict verdict;
  verdict.exempt = find_exemption();
  if (verdict.exempt.empty()) replay(verdict);
  return verdict;
}

// ---- Replaying ----------------------------------------------------------------------------------

void Replayer::replay(Verdict& verdict) {
  Script script(setup_.library);
  script.device()->set_memory(setup_.memory, setup_.devices);
  comparison_ = {};
  for (size_t i = 0; i < kinds_.size(); i++) {
    if (replay_operation(script, i, verdict) == Next::kStop) break;
  }
  const std::string fault = script.finish();
  if (!verdict.difference && !fault.empty()) {
    const Operation& last = file_.operations().back();
    verdict.difference = Difference{last.line_number, "destroying the allocator", {}, {fault}, 0};
  }
}

void Replayer::run_operation(Script& script, size_t index) {
  const OperationKind& kind = *kinds_[index];
  const Operation& operation = file_.operations()[index];
  script.begin_operation(index + 1, operation.expected);
  at_line(operation.line_number, [&] {
    if (kind.run == nullptr) return;
    if (kind.stage == Stage::kAllocator && !script.start()) return;
    Arguments arguments(operation.line);
    kind.run(script, arguments);
  });
  script.end_operation();
  if (options_.check) check_library(script);
}

void Replayer::check_library(Script& script) {
  if (script.allocator() != nullptr)
    script.worked(cachalot_check(script.allocator(), script.error()));
}

Replayer::Next Replayer::replay_operation(Script& script, size_t index, Verdict& verdict) {
  const Operation& operation = file_.operations()[index];
  run_operation(script, index);
  if (!script.mended().empty()) {
    verdict.mended = script.mended();
    return Next::kStop;
  }
  if (script.is_rest_exempt()) {
    verdict.exempt = "the rest from line " + decimal(operation.line_number);
    return Next::kStop;
  }
  if (script.is_operation_exempt()) {
    tally_.exempt_operations++;
    return Next::kGoOn;
  }
  std::vector<std::string_view> expected(operation.expected.begin(), operation.expected.end());
  std::vector<Line> actual = script.transcript().lines();
  if (options_.unobserved) {
    std::erase_if(expected, is_of_history);
    std::erase_if(actual, [](const Line& line) { return is_of_history(line.text); });
  }
  const ErrorRules rules{script.log.whole_text, script.is_error_text_exempt()};
  const auto first = comparison_.first_difference(expected, actual, rules);
  if (first) {
    verdict.difference = describe(script, operation, expected, actual, *first);
    return Next::kStop;
  }
  tally_.add_compared(kinds_[index]->word, expected.size());
  return Next::kGoOn;
}

Difference Replayer::describe(const Script& script, const Operation& operation,
                              const std::vector<std::string_view>& expected,
                              const std::vector<Line>& actual, size_t first) const {
  Difference difference{operation.line_number, std::string(operation.line), {}, {}, first};
  for (const std::string_view line : expected) difference.expected.emplace_back(line);
  const ErrorRules rules{script.log.whole_text, false};
  for (const Line& line : actual) difference.actual.push_back(comparison_.show(line, rules));
  return difference;
}

}  // namespace cachalot::differential
