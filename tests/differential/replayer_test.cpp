// SPDX-License-Identifier: MIT OR Apache-2.0
// Each line of a file of the reference matters: altered, left out or doubled, it must be reported.
#include "replayer.h"

#include <gtest/gtest.h>

#include <functional>

#include "input_error.h"
#include "text_file.h"

namespace cachalot::differential {
namespace {

using Lines = std::vector<std::string>;

Lines tour() {
  const std::string text = read_text_file(CACHALOT_TEST_DATA "/tour.txt");
  Lines lines;
  for (size_t start = 0, end = 0; start < text.size(); start = end + 1) {
    end = text.find('\n', start);
    lines.push_back(text.substr(start, end - start));
  }
  return lines;
}

Verdict verify(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  const ExpectedFile file(std::move(text));
  Tally tally;
  return Replayer(file, {}, tally).run();
}

bool is_reported(const Lines& lines) {
  try {
    return verify(lines).difference.has_value();
  } catch (const InputError&) {
    return true;
  }
}

void expect_each_reported(const std::function<void(Lines&, size_t)>& damage) {
  const Lines whole = tour();
  for (size_t i = 0; i < whole.size(); i++) {
    if (!whole[i].starts_with(' ')) continue;
    Lines damaged = whole;
    damage(damaged, i);
    EXPECT_TRUE(is_reported(damaged)) << "line " << i + 1 << ": " << whole[i];
  }
}

TEST(Replayer, FindsNoDifferenceInTheTour) {
  const Verdict verdict = verify(tour());
  EXPECT_FALSE(verdict.difference) << verdict.difference->operation;
  EXPECT_EQ(verdict.mended + verdict.exempt, "");
}

TEST(Replayer, ReportsEachAlteredLine) {
  expect_each_reported([](Lines& lines, size_t i) {
    char& last = lines[i].back();
    last = last == '1' ? '2' : '1';
  });
}

TEST(Replayer, ReportsEachMissingLine) {
  expect_each_reported(
      [](Lines& lines, size_t i) { lines.erase(lines.begin() + static_cast<long>(i)); });
}

TEST(Replayer, ReportsEachLineTooMany) {
  expect_each_reported(
      [](Lines& lines, size_t i) { lines.insert(lines.begin() + static_cast<long>(i), lines[i]); });
}

TEST(Replayer, NamesTheFirstOperationThatDiffers) {
  Lines lines = tour();
  const auto operation = std::find(lines.begin(), lines.end(), "base 1");
  ASSERT_NE(operation, lines.end());
  *(operation + 1) = " # base 7131eb600000 2097153";
  const Verdict verdict = verify(lines);
  ASSERT_TRUE(verdict.difference);
  EXPECT_EQ(verdict.difference->operation, "base 1");
  EXPECT_EQ(verdict.difference->line_number, static_cast<size_t>(operation - lines.begin()) + 1);
  EXPECT_EQ(verdict.difference->expected, Lines{"# base 7131eb600000 2097153"});
  EXPECT_EQ(verdict.difference->actual, Lines{"# base 7131eb600000 2097152"});
}

// ---- Comparison ---------------------------------------------------------------------------------

bool equal(std::string_view expected, Line actual, ErrorRules rules = {}) {
  const std::string_view lines[] = {expected};
  return !Comparison().first_difference(lines, {&actual, 1}, rules);
}

Line failure(cachalot_status status, std::string message, bool at_init = false) {
  return {std::move(message), Failure{status, at_init}};
}

TEST(Comparison, AcceptsTheStatusOfEachKind) {
  EXPECT_TRUE(equal("E oom text", failure(CACHALOT_ERROR_OUT_OF_MEMORY, "text")));
  EXPECT_FALSE(equal("E oom text", failure(CACHALOT_ERROR_DRIVER, "text")));
  for (const char* kind : {"value", "index", "type", "invalid_argument", "out_of_range"}) {
    const std::string line = std::string("E ") + kind + " text";
    EXPECT_TRUE(equal(line, failure(CACHALOT_ERROR_INVALID_ARGUMENT, "text"))) << kind;
    EXPECT_FALSE(equal(line, failure(CACHALOT_ERROR_INVALID_STATE, "text"))) << kind;
  }
  EXPECT_TRUE(equal("E error text", failure(CACHALOT_ERROR_INVALID_STATE, "text")));
  EXPECT_TRUE(equal("E error text", failure(CACHALOT_ERROR_INVALID_ARGUMENT, "text")));
  EXPECT_FALSE(equal("E error text", failure(CACHALOT_ERROR_INTERNAL, "text")));
  EXPECT_FALSE(equal("E other text", failure(CACHALOT_ERROR_INTERNAL, "text")));
  EXPECT_TRUE(equal("E not_implemented text", failure(CACHALOT_ERROR_NOT_SUPPORTED, "text")));
}

TEST(Comparison, ComparesTextsWordForWordButOfAssertions) {
  EXPECT_FALSE(equal("E error text ", failure(CACHALOT_ERROR_INVALID_STATE, "text")));
  EXPECT_TRUE(
      equal("E error a INTERNAL ASSERT FAILED at b", failure(CACHALOT_ERROR_INVALID_STATE, "c")));
  EXPECT_FALSE(equal("E error a INTERNAL ASSERT FAILED at b", failure(CACHALOT_ERROR_DRIVER, "c")));
  EXPECT_FALSE(equal("E error text", {"E error text", std::nullopt}));
  EXPECT_FALSE(equal("T alloc 1 2 0", failure(CACHALOT_ERROR_INVALID_STATE, "T alloc 1 2 0")));
}

TEST(Comparison, WantsAnErrorWhereTheReferenceFailsAnAssertion) {
  const char* assertion = "E error it != end() INTERNAL ASSERT FAILED at b";
  EXPECT_TRUE(equal(assertion, failure(CACHALOT_ERROR_INVALID_STATE, "anything")));
  EXPECT_FALSE(equal(assertion, {"# count 0", std::nullopt}));
  EXPECT_FALSE(equal("E error text", failure(CACHALOT_ERROR_NOT_SUPPORTED, "text")));
}

TEST(Comparison, ComparesTheFirstLineOfDriverErrors) {
  const ErrorRules whole{true, false};
  EXPECT_TRUE(equal("E accelerator CUDA error: x\\nadvice",
                    failure(CACHALOT_ERROR_DRIVER, "CUDA error: x"), whole));
  EXPECT_FALSE(equal("E accelerator CUDA error: x\\nadvice",
                     failure(CACHALOT_ERROR_DRIVER, "CUDA error: y"), whole));
  EXPECT_TRUE(equal("E error CUDA driver error: x",
                    failure(CACHALOT_ERROR_DRIVER, "CUDA driver error: x\nmore")));
  EXPECT_FALSE(equal("E error a\\nb", failure(CACHALOT_ERROR_INVALID_STATE, "a"), whole));
  EXPECT_TRUE(equal("E error a\\nb", failure(CACHALOT_ERROR_INVALID_STATE, "a\nb"), whole));
}

TEST(Comparison, TellsAFailureOfTheStartFromOthers) {
  EXPECT_TRUE(equal("E init value text", failure(CACHALOT_ERROR_INVALID_ARGUMENT, "text", true)));
  EXPECT_FALSE(equal("E init value text", failure(CACHALOT_ERROR_INVALID_ARGUMENT, "text")));
  EXPECT_FALSE(equal("E value text", failure(CACHALOT_ERROR_INVALID_ARGUMENT, "text", true)));
}

TEST(Comparison, TakesContextsAsLinesThatAreAConstantApart) {
  const std::vector<std::string_view> expected = {
      "# blk 512 100 allocated line 7", "# blk 512 0 free no line",
      "# trace alloc 0 1 0 line 9 metadata \" line 3\""};
  const auto compare = [&](const char* first, const char* last) {
    const Line lines[] = {{first, {}}, {"# blk 512 0 free no line", {}}, {last, {}}};
    return Comparison().first_difference(expected, lines, {});
  };
  EXPECT_EQ(
      compare("# blk 512 100 allocated line 5", "# trace alloc 0 1 0 line 7 metadata \" line 3\""),
      std::nullopt);
  EXPECT_EQ(
      compare("# blk 512 100 allocated line 5", "# trace alloc 0 1 0 line 8 metadata \" line 3\""),
      2u);
  EXPECT_EQ(
      compare("# blk 512 100 allocated no line", "# trace alloc 0 1 0 line 7 metadata \" line 3\""),
      0u);
  EXPECT_EQ(
      compare("# blk 512 100 allocated line 8", "# trace alloc 0 1 0 line 10 metadata \" line 3\""),
      0u);
}

}  // namespace
}  // namespace cachalot::differential
