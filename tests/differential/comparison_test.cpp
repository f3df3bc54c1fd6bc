// SPDX-License-Identifier: MIT OR Apache-2.0
// How texts of failures are compared.
#include "comparison.h"

#include <gtest/gtest.h>

#include <array>

namespace cachalot::differential {
namespace {

constexpr char kExpected[] = "E oom CUDA out of memory. Tried to allocate 2.00 MiB.";

bool is_equal(std::string_view expected, std::string message, ErrorRules rules = {}) {
  const std::array<std::string_view, 1> lines = {expected};
  const std::array<Line, 1> actual = {
      Line{std::move(message), Failure{CACHALOT_ERROR_OUT_OF_MEMORY, false}}};
  return !Comparison().first_difference(lines, actual, rules);
}

TEST(OutOfMemoryText, IsEqualWithTheLibrarysLineBehindIt) {
  for (const bool whole : {false, true}) {
    EXPECT_TRUE(is_equal(kExpected,
                         "CUDA out of memory. Tried to allocate 2.00 MiB.\ncachalot: there is.",
                         {whole}));
  }
}

TEST(OutOfMemoryText, DiffersWithoutTheLibrarysLine) {
  for (const bool whole : {false, true}) {
    const std::string text = "CUDA out of memory. Tried to allocate 2.00 MiB.";
    EXPECT_FALSE(is_equal(kExpected, text, {whole}));
    EXPECT_FALSE(is_equal(kExpected, text + "\ncachalot: ", {whole}));
    EXPECT_FALSE(is_equal(kExpected, text + "\nsomething: there is.", {whole}));
    EXPECT_FALSE(is_equal(kExpected, text + "\ncachalot: there is.\nmore", {whole}));
  }
}

TEST(OutOfMemoryText, DiffersByTheReferencesPart) {
  EXPECT_FALSE(
      is_equal(kExpected, "CUDA out of memory. Tried to allocate 4.00 MiB.\ncachalot: there is."));
  EXPECT_FALSE(is_equal(
      kExpected, "CUDA out of memory. Tried to allocate 2.00 MiB.\n\ncachalot: there is.", {true}));
}

TEST(OutOfMemoryText, OfTooLargeARequestHasNoLine) {
  const std::string expected = "CUDA out of memory. Tried to allocate more than 1EB memory.";
  EXPECT_TRUE(is_equal("E oom " + expected, expected));
}

}  // namespace
}  // namespace cachalot::differential
