// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/loaded_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "elf_image.h"

namespace cachalot {
namespace {

constexpr uint64_t kCode = 0x1000;
const std::string kId("\xab\x01\xcd", 3);
const std::string kIdText = "ab01cd";

std::vector<ImageSection> line_sections(const std::string& file) {
  return {
      {.name = ".debug_line",
       .contents = unit_bytes({.tables = old_tables("/src", file), .program = two_lines(kCode)})}};
}

// Functions "one" and "two" of eight bytes each, and a variable.
std::vector<ImageSection> symbol_sections() {
  std::string symbols;
  const auto add = [&symbols](uint32_t name, unsigned char type, uint64_t value, uint64_t size) {
    Elf64_Sym symbol{};
    symbol.st_name = name;
    symbol.st_info = ELF64_ST_INFO(STB_LOCAL, type);
    symbol.st_value = value;
    symbol.st_size = size;
    symbols.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
  };
  add(0, STT_NOTYPE, 0, 0);
  add(5, STT_FUNC, kCode + 8, 8);
  add(9, STT_OBJECT, kCode + 16, 8);
  add(1, STT_FUNC, kCode, 8);
  return {{.name = ".symtab", .contents = symbols, .type = SHT_SYMTAB},
          {.name = ".strtab", .contents = std::string("\0one\0two\0var", 13), .type = SHT_STRTAB}};
}

std::string image(std::vector<ImageSection> sections, const std::string& id = kId) {
  sections.push_back(code_section(kCode, 32));
  if (!id.empty()) sections.push_back(build_id_section(id));
  return elf_image(sections);
}

std::string file_of(LoadedFile file) { return file.line_at(kCode).file; }

// A folder as /usr/lib/debug.
class DebugFolder {
 public:
  DebugFolder() {
    std::string name = std::filesystem::temp_directory_path() / "cachalot-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~DebugFolder() { std::filesystem::remove_all(path_); }
  DebugFolder(const DebugFolder&) = delete;
  DebugFolder& operator=(const DebugFolder&) = delete;

  void put(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = path_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(LoadedFile, KnowsLinesAndFunctions) {
  std::vector<ImageSection> sections = symbol_sections();
  sections.push_back(line_sections("a.c").front());
  const MemoryImage code(image(sections));
  LoadedFile file(code.path(), kIdText);
  EXPECT_EQ(file.line_at(kCode + 4).file, "/src/a.c");
  EXPECT_EQ(file.line_at(kCode + 4).line, 18);
  EXPECT_EQ(file.function_at(kCode - 1), "");
  EXPECT_EQ(file.function_at(kCode), "one");
  EXPECT_EQ(file.function_at(kCode + 7), "one");
  EXPECT_EQ(file.function_at(kCode + 8), "two");
  EXPECT_EQ(file.function_at(kCode + 16), "");
}

TEST(LoadedFile, IsNotBelievedWithTheBuildIdOfAnotherOne) {
  const MemoryImage code(image(line_sections("a.c")));
  const MemoryImage without(image(line_sections("a.c"), ""));
  EXPECT_EQ(file_of(LoadedFile(code.path(), kIdText)), "/src/a.c");
  EXPECT_EQ(file_of(LoadedFile(code.path(), "ab01ce")), "");
  EXPECT_EQ(file_of(LoadedFile(without.path(), kIdText)), "");
}

TEST(LoadedFile, MayHaveNoBuildId) {
  const MemoryImage without(image(line_sections("a.c"), ""));
  EXPECT_EQ(file_of(LoadedFile(without.path(), "")), "/src/a.c");
}

TEST(LoadedFile, HasWhatWasStrippedOffItByItsBuildId) {
  const DebugFolder folder;
  const MemoryImage code(image({}));
  LoadedFile file(code.path(), kIdText, folder.path());
  folder.put(".build-id/ab/01cd.debug", image(line_sections("b.c")));
  EXPECT_EQ(file.line_at(kCode).file, "/src/b.c");
  EXPECT_EQ(file.function_at(kCode), "");
  folder.put(".build-id/ab/01cd.debug", image(symbol_sections()));
  EXPECT_EQ(LoadedFile(code.path(), kIdText, folder.path()).function_at(kCode), "one");
}

TEST(LoadedFile, PrefersItsOwnLines) {
  const DebugFolder folder;
  folder.put(".build-id/ab/01cd.debug", image(line_sections("b.c")));
  const MemoryImage code(image(line_sections("a.c")));
  EXPECT_EQ(file_of(LoadedFile(code.path(), kIdText, folder.path())), "/src/a.c");
}

TEST(LoadedFile, DoesNotBelieveAStrippedFileOfAnotherBuild) {
  const DebugFolder folder;
  folder.put(".build-id/ab/01cd.debug", image(line_sections("b.c"), "\xab\x01\xce"));
  const MemoryImage code(image({}));
  EXPECT_EQ(file_of(LoadedFile(code.path(), kIdText, folder.path())), "");
}

TEST(LoadedFile, FindsTheBuildIdBehindOtherNotes) {
  ImageSection notes = build_id_section(kId);
  notes.contents = number_bytes(5, 4) + number_bytes(3, 4) + number_bytes(NT_GNU_BUILD_ID, 4) +
                   std::string("none\0...", 8) + "abc." + notes.contents;
  std::vector<ImageSection> sections = line_sections("a.c");
  sections.push_back(notes);
  const MemoryImage code(image(sections, ""));
  EXPECT_EQ(file_of(LoadedFile(code.path(), kIdText)), "/src/a.c");
}

TEST(LoadedFile, HasNoFunctionsOfAFileThatHasChangedSince) {
  MemoryImage code(image(symbol_sections()));
  LoadedFile file(code.path(), kIdText);
  EXPECT_EQ(file.function_at(kCode), "one");
  code.replace(file_bytes(code.path()) + " ");
  EXPECT_EQ(file.function_at(kCode), "");
}

TEST(LoadedFile, KnowsNothingWhereThereIsNoFile) {
  const DebugFolder folder;
  for (const std::string path : {"/nonexistent", "", "/dev/null", "/proc/self/maps", "/"})
    EXPECT_EQ(file_of(LoadedFile(path, kIdText, folder.path())), "") << path;
}

TEST(LoadedFile, DoesNotWaitForAPipe) {
  const DebugFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(file_of(LoadedFile(path, kIdText, folder.path())), "");
}

TEST(LoadedFile, CountsTheMemoryOfItsTables) {
  const MemoryImage code(image(line_sections("a.c")));
  LoadedFile file(code.path(), kIdText);
  const size_t before = file.bytes();
  file.line_at(kCode);
  EXPECT_EQ(file.bytes(), before + 24);
}

}  // namespace
}  // namespace cachalot
