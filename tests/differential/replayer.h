// SPDX-License-Identifier: MIT OR Apache-2.0
// Replays the script of an expected file through the library and compares what happens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comparison.h"
#include "expected_file.h"
#include "operations.h"
#include "script.h"
#include "script_setup.h"
#include "tally.h"

namespace cachalot::differential {

struct ReplayOptions {
  // CACHALOT_RELEASE_*: the release that the expected files are from.
  int32_t release = CACHALOT_RELEASE_2_15;
  // The library's auditor looks at everything after each operation.
  bool check = false;
  // Events are neither observed nor compared: the library takes its hot path.
  bool unobserved = false;
};

// The first operation of a file in which the library did something else.
struct Difference {
  size_t line_number = 0;
  std::string operation;
  std::vector<std::string> expected;
  std::vector<std::string> actual;
  // The index of the first line that differs in both.
  size_t first = 0;
};

// What came of a file.
struct Verdict {
  std::optional<Difference> difference;
  // The defect of the reference ("U3") whose mending ended the comparison.
  std::string mended;
  // Why the file, or the rest of it, cannot be compared on purpose.
  std::string exempt;
};

class Replayer {
 public:
  // Both must outlive this.
  Replayer(const ExpectedFile& file, ReplayOptions options, Tally& tally);

  // Throws InputError with its line for an operation that is none.
  Verdict run();

 private:
  enum class Next { kGoOn, kStop };

  void look_up_operations();
  std::string find_exemption() const;
  void replay(Verdict& verdict);
  Next replay_operation(Script& script, size_t index, Verdict& verdict);
  void run_operation(Script& script, size_t index);
  void check_library(Script& script);
  Difference describe(const Script& script, const Operation& operation,
                      const std::vector<std::string_view>& expected,
                      const std::vector<Line>& actual, size_t first) const;

  const ExpectedFile& file_;
  ReplayOptions options_;
  Tally& tally_;
  std::vector<const OperationKind*> kinds_;
  ScriptSetup setup_;
  Comparison comparison_;
};

}  // namespace cachalot::differential
