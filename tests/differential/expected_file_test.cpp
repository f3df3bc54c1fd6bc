// SPDX-License-Identifier: MIT OR Apache-2.0
#include "expected_file.h"

#include <gtest/gtest.h>

#include "input_error.h"
#include "text_file.h"

namespace cachalot::differential {
namespace {

const std::string kShort =
    "config \n"
    "a 1 512 0x0\n"
    " D malloc 2097152 700000000000\n"
    " R 700000000000\n"
    "end\n"
    " = counters retries 0\n";

size_t line_of_fault(const std::string& text) {
  try {
    const ExpectedFile file(text);
  } catch (const InputError& error) {
    return error.line();
  }
  ADD_FAILURE() << "accepted: " << text;
  return 0;
}

TEST(ExpectedFile, GroupsLinesUnderTheirOperations) {
  const ExpectedFile file(kShort);
  ASSERT_EQ(file.operations().size(), 3u);
  const Operation& operation = file.operations()[1];
  EXPECT_EQ(operation.line, "a 1 512 0x0");
  EXPECT_EQ(operation.word, "a");
  EXPECT_EQ(operation.line_number, 2u);
  ASSERT_EQ(operation.expected.size(), 2u);
  EXPECT_EQ(operation.expected[0], "D malloc 2097152 700000000000");
  EXPECT_EQ(operation.expected[1], "R 700000000000");
  EXPECT_TRUE(file.operations()[0].expected.empty());
}

TEST(ExpectedFile, PrintsWhatItRead) {
  EXPECT_EQ(ExpectedFile(kShort).print(), kShort);
  const std::string tour = read_text_file(CACHALOT_TEST_DATA "/tour.txt");
  EXPECT_EQ(ExpectedFile(tour).print(), tour);
}

TEST(ExpectedFile, AcceptsAnEndAtTheFailureOfTheStart) {
  const ExpectedFile file(std::string("a 1 512 0x0\n E init value too small\n"));
  EXPECT_EQ(file.operations().size(), 1u);
}

TEST(ExpectedFile, RefusesWhatTheOracleCannotHavePrinted) {
  EXPECT_EQ(line_of_fault(""), 0u);
  EXPECT_EQ(line_of_fault(" T alloc 0 0 0\n"), 1u);
  EXPECT_EQ(line_of_fault("config \n\nend\n"), 2u);
  EXPECT_EQ(line_of_fault("config \na 1 512 0x0"), 2u);
  EXPECT_EQ(line_of_fault("config \na 1 512 0x0\n"), 2u);
  EXPECT_EQ(line_of_fault("config \nend\n"), 2u);
  EXPECT_EQ(line_of_fault(std::string("config \na\0\n", 11)), 2u);
  EXPECT_EQ(line_of_fault(kShort + "a 2 512 0x0\n"), 7u);
}

TEST(TextFile, RefusesAFileThatIsNotThere) {
  EXPECT_THROW(read_text_file(CACHALOT_TEST_DATA "/absent.txt"), InputError);
}

}  // namespace
}  // namespace cachalot::differential
