// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/line_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "elf_image.h"

namespace cachalot {
namespace {

constexpr uint64_t kCode = 0x1000;

// "file:line"; "" where the line is unknown.
std::string place_of(const SourceLine& place) {
  return place.line == 0 ? "" : place.file + ":" + std::to_string(place.line);
}

// Of an image with these units and code at kCode.
class Lines {
 public:
  explicit Lines(const std::string& units, std::vector<ImageSection> more = {})
      : image_(elf_image(with(units, std::move(more)))), file_(image_.path()), table_(file_) {}

  std::string at(uint64_t address) const { return place_of(table_.find(file_, address)); }
  bool is_empty() const { return table_.is_empty(); }

 private:
  static std::vector<ImageSection> with(const std::string& units, std::vector<ImageSection> more) {
    more.push_back(code_section(kCode, 0x100));
    more.push_back({.name = ".debug_line", .contents = units});
    return more;
  }

  MemoryImage image_;
  ElfFile file_;
  LineTable table_;
};

TEST(LineTable, HasTheRowsOfASequenceUpToItsEnd) {
  const Lines lines(unit_bytes({.tables = old_tables("/src", "a.c"), .program = two_lines(kCode)}));
  EXPECT_EQ(lines.at(kCode - 1), "");
  EXPECT_EQ(lines.at(kCode), "/src/a.c:11");
  EXPECT_EQ(lines.at(kCode + 3), "/src/a.c:11");
  EXPECT_EQ(lines.at(kCode + 4), "/src/a.c:18");
  EXPECT_EQ(lines.at(kCode + 7), "/src/a.c:18");
  EXPECT_EQ(lines.at(kCode + 8), "");
}

TEST(LineTable, ReadsTheOldVersionsInBothFormats) {
  for (const uint64_t version : {2, 3, 4})
    for (const bool is_64_bit : {false, true}) {
      const Lines lines(unit_bytes({.version = version,
                                    .is_64_bit = is_64_bit,
                                    .tables = old_tables("/src", "a.c"),
                                    .program = two_lines(kCode)}));
      EXPECT_EQ(lines.at(kCode + 5), "/src/a.c:18") << version << is_64_bit;
    }
}

TEST(LineTable, KeepsANameWithoutAFolderAsItIs) {
  const Lines absolute(
      unit_bytes({.tables = old_tables("/src", "/b/a.c"), .program = two_lines(kCode)}));
  EXPECT_EQ(absolute.at(kCode), "/b/a.c:11");
  std::string of_no_folder = old_tables("/src", "a.c");
  of_no_folder[of_no_folder.size() - 4] = 0;
  const Lines relative(unit_bytes({.tables = of_no_folder, .program = two_lines(kCode)}));
  EXPECT_EQ(relative.at(kCode), "a.c:11");
}

// Folders in the unit, in .debug_line_str and in .debug_str; a file in each; what is skipped.
std::string new_tables(size_t offset_size) {
  std::string folders = number_bytes(1, 1) + "\x01\x08" + "\2" + std::string("/build\0sub\0", 11);
  std::string files = number_bytes(3, 1) + "\x02\x0b" + "\x01\x1f" + "\x05\x1e" + "\3";
  for (const uint64_t folder : {0, 1, 1})
    files += number_bytes(folder, 1) + number_bytes(folder == 0 ? 1 : 5, offset_size) +
             std::string(16, '\7');
  return folders + files;
}

TEST(LineTable, ReadsVersion5InBothFormats) {
  const ImageSection texts{.name = ".debug_line_str", .contents = std::string("-a.c\0b.c\0", 9)};
  for (const bool is_64_bit : {false, true}) {
    const Lines lines(unit_bytes({.version = 5,
                                  .is_64_bit = is_64_bit,
                                  .tables = new_tables(is_64_bit ? 8 : 4),
                                  .program = set_file(0) + two_lines(kCode) + set_file(2) +
                                             two_lines(kCode + 8)}),
                      {texts});
    EXPECT_EQ(lines.at(kCode), "/build/a.c:11");
    EXPECT_EQ(lines.at(kCode + 9), "/build/sub/b.c:11");
  }
}

TEST(LineTable, ReadsNamesInTheSectionOfAllTexts) {
  const std::string tables = number_bytes(1, 1) + "\x01\x08" + "\1" + std::string("/s\0", 3) +
                             number_bytes(1, 1) + "\x01\x0e" + "\2" + number_bytes(0, 4) +
                             number_bytes(2, 4);
  const std::string units =
      unit_bytes({.version = 5, .tables = tables, .program = two_lines(kCode)});
  EXPECT_EQ(Lines(units, {{.name = ".debug_str", .contents = std::string("a\0b\0", 4)}}).at(kCode),
            "/s/b:11");
  EXPECT_EQ(Lines(units).at(kCode), ":11");
}

TEST(LineTable, CountsSpecialOpcodesInTheStepsOfTheHeader) {
  // 13 + (2 + 5) + 14 * 3: three bytes and two lines further.
  const std::string special(1, static_cast<char>(13 + 7 + 42));
  const std::string program =
      set_address(kCode) + copy_row() + special + advance_address(1) + end_sequence();
  const Lines lines(unit_bytes({.tables = old_tables("/", "a"), .program = program}));
  EXPECT_EQ(lines.at(kCode + 2), "//a:1");
  EXPECT_EQ(lines.at(kCode + 3), "//a:3");
}

TEST(LineTable, StepsByWholeInstructionsWhereTheseHaveSeveralOperations) {
  const std::string program = set_address(kCode) + copy_row() + advance_address(5) +
                              advance_line(1) + copy_row() + advance_address(1) + advance_line(1) +
                              copy_row() + advance_address(9) + end_sequence();
  const Lines lines(
      unit_bytes({.operations = 3, .tables = old_tables("/", "a"), .program = program}));
  EXPECT_EQ(lines.at(kCode), "//a:1");
  EXPECT_EQ(lines.at(kCode + 1), "//a:2");  // the sixth operation is in the second instruction
  EXPECT_EQ(lines.at(kCode + 2), "//a:3");
}

TEST(LineTable, StepsByAConstantAndByANumberOfTwoBytes) {
  // (255 - 13) / 14 bytes, then 0x10.
  const std::string program = set_address(kCode) + copy_row() + "\x08" + advance_line(1) +
                              copy_row() + std::string("\x09\x10\0", 3) + advance_line(1) +
                              copy_row() + advance_address(1) + end_sequence();
  const Lines lines(unit_bytes({.tables = old_tables("/", "a"), .program = program}));
  EXPECT_EQ(lines.at(kCode + 16), "//a:1");
  EXPECT_EQ(lines.at(kCode + 17), "//a:2");
  EXPECT_EQ(lines.at(kCode + 17 + 15), "//a:2");
  EXPECT_EQ(lines.at(kCode + 17 + 16), "//a:3");
}

TEST(LineTable, TakesTheFirstEightBytesOfALongAddress) {
  const std::string program = extended(2, number_bytes(kCode, 8) + std::string(8, '\xff')) +
                              copy_row() + advance_address(1) + end_sequence();
  EXPECT_EQ(Lines(unit_bytes({.tables = old_tables("/", "a"), .program = program})).at(kCode),
            "//a:1");
}

TEST(LineTable, SkipsOperationsOfLaterVersions) {
  const std::string unknown = std::string("\x0d\x81\1\2", 4) + extended(0x99, "\1\1\1");
  const Lines lines(unit_bytes({.more_operand_counts = "\2",
                                .tables = old_tables("/src", "a.c"),
                                .program = unknown + two_lines(kCode)}));
  EXPECT_EQ(lines.at(kCode), "/src/a.c:11");
}

TEST(LineTable, LeavesOutFunctionsThatTheLinkerHasLeftOut) {
  const Lines lines(
      unit_bytes({.tables = old_tables("/src", "a.c"),
                  .program = set_address(0) + advance_line(99) + copy_row() +
                             std::string("\x09\xff\xff", 3) + end_sequence() + two_lines(kCode)}));
  EXPECT_EQ(lines.at(kCode), "/src/a.c:11");
  EXPECT_EQ(lines.at(kCode + 8), "");
  EXPECT_EQ(lines.at(0), "");
}

TEST(LineTable, FindsTheUnitsOfAllSequences) {
  std::string units;
  for (const int i : {3, 0, 2, 1})
    units += unit_bytes({.tables = old_tables("/src", std::string(1, static_cast<char>('a' + i))),
                         .program = two_lines(kCode + static_cast<uint64_t>(16 * i))});
  const Lines lines(units);
  EXPECT_EQ(lines.at(kCode), "/src/a:11");
  EXPECT_EQ(lines.at(kCode + 8), "");
  EXPECT_EQ(lines.at(kCode + 20), "/src/b:18");
  EXPECT_EQ(lines.at(kCode + 32), "/src/c:11");
  EXPECT_EQ(lines.at(kCode + 48), "/src/d:11");
}

TEST(LineTable, PassesOverUnitsOfUnknownVersions) {
  std::string units;
  for (const uint64_t version : {1, 6, 4})
    units += unit_bytes({.version = version,
                         .tables = old_tables("/src", "a.c"),
                         .program = two_lines(kCode + 16 * version)});
  const Lines lines(units);
  EXPECT_EQ(lines.at(kCode + 16), "");
  EXPECT_EQ(lines.at(kCode + 64), "/src/a.c:11");
  EXPECT_EQ(lines.at(kCode + 96), "");
}

TEST(LineTable, EndsATableThatSaysItIsEndless) {
  const std::string endless = number_bytes(1, 1) + "\x01\x08" + std::string(9, '\xff') + '\x01';
  const Lines lines(unit_bytes({.version = 5, .tables = endless, .program = two_lines(kCode)}));
  EXPECT_EQ(lines.at(kCode), ":11");
}

TEST(LineTable, HasNoRowsOfAUnitWhoseHeaderIsCutShort) {
  std::string unit = unit_bytes({.tables = old_tables("/src", "a.c"), .program = two_lines(kCode)});
  for (char length = 0; length < 18; ++length) {
    unit[6] = length;  // of the header
    EXPECT_TRUE(Lines(unit).is_empty()) << +length;
  }
  const std::string header = "\1\1\1\xfb\x0e\x0d";  // and no counts of operands
  const std::string rest =
      number_bytes(4, 2) + number_bytes(header.size(), 4) + header + two_lines(kCode);
  EXPECT_TRUE(Lines(number_bytes(rest.size(), 4) + rest).is_empty());
}

TEST(LineTable, EndsWhereAUnitIsLongerThanItsSection) {
  const std::string unit =
      unit_bytes({.tables = old_tables("/src", "a.c"), .program = two_lines(kCode)});
  const std::string next =
      unit_bytes({.tables = old_tables("/src", "b.c"), .program = two_lines(kCode + 8)});
  const Lines lines(unit + next.substr(0, next.size() - 1));
  EXPECT_EQ(lines.at(kCode), "/src/a.c:11");
  EXPECT_EQ(lines.at(kCode + 8), "");
  EXPECT_TRUE(Lines(std::string(1000, '\0')).is_empty());
}

TEST(LineTable, IsEmptyWithoutALineRangeOrWithNothing) {
  EXPECT_TRUE(Lines(unit_bytes({.line_range = 0, .program = two_lines(kCode)})).is_empty());
  EXPECT_TRUE(Lines("").is_empty());
}

TEST(LineTable, IsEmptyWhereTheSectionIsCompressed) {
  const std::string units =
      unit_bytes({.tables = old_tables("/src", "a.c"), .program = two_lines(kCode)});
  for (const uint64_t flags : {uint64_t{0}, uint64_t{SHF_COMPRESSED}}) {
    const MemoryImage image(elf_image(
        {code_section(kCode, 16), {.name = ".debug_line", .contents = units, .flags = flags}}));
    EXPECT_EQ(LineTable(ElfFile(image.path())).is_empty(), flags != 0);
  }
}

TEST(LineTable, HasNoLinesOfAFileThatHasChangedSince) {
  MemoryImage image(elf_image({code_section(kCode, 16),
                               {.name = ".debug_line",
                                .contents = unit_bytes({.tables = old_tables("/src", "a.c"),
                                                        .program = two_lines(kCode)})}}));
  const LineTable table{ElfFile(image.path())};
  EXPECT_EQ(place_of(table.find(ElfFile(image.path()), kCode)), "/src/a.c:11");
  image.replace(file_bytes(image.path()) + " ");
  EXPECT_EQ(place_of(table.find(ElfFile(image.path()), kCode)), "");
}

TEST(LineTable, SaysThatTheLineOfCodeWithoutOneIsUnknown) {
  const std::string program = set_address(kCode) + std::string("\x03\x7f\1", 3) +
                              advance_address(4) + advance_line(9) + copy_row() +
                              advance_address(4) + end_sequence();
  const Lines lines(unit_bytes({.tables = old_tables("/src", "a.c"), .program = program}));
  EXPECT_EQ(lines.at(kCode), "");
  EXPECT_EQ(lines.at(kCode + 4), "/src/a.c:9");
}

// ---- Beside addr2line

// Its answers, one a line: "FILE:LINE", with " (discriminator N)" behind some; question marks for
// what it does not know.
std::vector<std::string> answers_of_addr2line(const std::string& path,
                                              const std::vector<uint64_t>& addresses) {
  std::ostringstream asked;
  for (const uint64_t address : addresses) asked << std::hex << address << '\n';
  const MemoryImage questions(asked.str());
  const std::string command = CACHALOT_ADDR2LINE " -e '" + path + "' < /proc/" +
                              std::to_string(getpid()) + questions.path().substr(10);
  std::FILE* const output = popen(command.c_str(), "r");
  std::vector<std::string> answers;
  char line[8192];
  while (output && std::fgets(line, sizeof line, output)) {
    const std::string answer(line);
    const std::string place = answer.substr(0, answer.find_first_of(" \n"));
    answers.push_back(place.find('?') == std::string::npos && !place.ends_with(":0") ? place : "");
  }
  if (output) pclose(output);
  return answers;
}

std::vector<std::string> programs_with_lines() {
  std::vector<std::string> paths;
  std::istringstream list(CACHALOT_PROGRAMS_WITH_LINES);
  for (std::string path; std::getline(list, path, ':');) paths.push_back(path);
  return paths;
}

// addr2line knows also the folder that the compiler was started in, from another section.
bool is_same(const SourceLine& found, const std::string& expected) {
  const std::string place = place_of(found);
  return place == expected ||
         (place != "" && place.front() != '/' && expected.ends_with("/" + place));
}

TEST(LineTable, SaysWhatAddr2lineSays) {
  if (std::system(CACHALOT_ADDR2LINE " --version > /dev/null") != 0)
    GTEST_SKIP() << "addr2line is missing";
  for (const std::string& path : programs_with_lines()) {
    const ElfFile file(path);
    const LineTable table(file);
    const Elf64_Shdr* const code = file.section(".text");
    ASSERT_NE(code, nullptr) << path;
    std::vector<uint64_t> addresses;
    for (uint64_t offset = 0; offset < code->sh_size;
         offset += std::max<uint64_t>(code->sh_size / 4000, 1))
      addresses.push_back(code->sh_addr + offset);
    const std::vector<std::string> expected = answers_of_addr2line(path, addresses);
    ASSERT_EQ(expected.size(), addresses.size()) << path;
    size_t known = 0;
    for (size_t i = 0; i < addresses.size(); ++i) {
      const SourceLine found = table.find(file, addresses[i]);
      EXPECT_TRUE(is_same(found, expected[i])) << path << ' ' << std::hex << addresses[i] << ": "
                                               << place_of(found) << ", not " << expected[i];
      known += expected[i] != "";
    }
    EXPECT_GT(known, addresses.size() / 2) << path;
    std::cout << path << ": " << known << " of " << addresses.size() << " addresses have lines\n";
  }
}

}  // namespace
}  // namespace cachalot
