// SPDX-License-Identifier: MIT OR Apache-2.0
// Files with debug information that are damaged in any way are read to an end, and nothing outside
// of them is.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "../test_seed.h"
#include "alloc/trace/loaded_file.h"
#include "elf_image.h"

namespace cachalot {
namespace {

// What is read of a file at all, in a small file of its own.
class Essence {
 public:
  explicit Essence(const std::string& path) {
    const ElfFile file(path);
    std::vector<ImageSection> sections;
    for (const char* const name : {".text", ".debug_line", ".debug_line_str", ".debug_str",
                                   ".symtab", ".strtab", ".note.gnu.build-id"}) {
      const Elf64_Shdr* const section = file.section(name);
      if (!section) continue;
      const auto bytes = file.read(*section, 0, section->sh_size);
      sections.push_back({.name = name,
                          .contents = std::string(bytes.begin(), bytes.end()),
                          .type = section->sh_type,
                          .flags = section->sh_flags,
                          .address = section->sh_addr});
    }
    bytes_ = elf_image(sections);
    begin_ = file.section(".text")->sh_addr;
    size_ = file.section(".text")->sh_size;
    places_ = {0, bytes_.size() - (sections.size() + 2) * sizeof(Elf64_Shdr)};
    size_t at = sizeof(Elf64_Ehdr);
    for (const ImageSection& section : sections) {
      if (section.name != ".text") places_.push_back(at);
      at += section.contents.size();
    }
  }

  const std::string& bytes() const { return bytes_; }
  uint64_t address(Random& random) const { return begin_ + random.below(size_); }

  // A reader looks at headers first, so most damage is there.
  std::string damaged(Random& random) const {
    std::string bytes = bytes_;
    for (uint64_t count = random.of_any_magnitude(1, 32); count > 0; --count) {
      const size_t place = random.one_in(3)
                               ? random.below(bytes.size())
                               : random.pick(places_) + random.of_any_magnitude(1, 2000) - 1;
      const std::string number = number_bytes(odd_number(random), random.pick(kSizes));
      const size_t at = std::min(place, bytes.size() - number.size());
      bytes.replace(at, number.size(), number);
    }
    if (random.one_in(4)) bytes.resize(random.below(bytes.size()));
    return bytes;
  }

 private:
  static constexpr size_t kSizes[] = {1, 1, 1, 2, 4, 8};

  static uint64_t odd_number(Random& random) {
    const uint64_t some[] = {0,      1,       0x7f,       0x80,       0xff,
                             0xffff, 0x10000, 0x7fffffff, UINT32_MAX, UINT64_MAX};
    return random.one_in(3) ? random.pick(some) : random.bits();
  }

  std::string bytes_;
  uint64_t begin_ = 0;  // of the code
  uint64_t size_ = 0;
  std::vector<size_t> places_;  // where something begins
};

TEST(DamagedFiles, AreReadToAnEnd) {
  Random random(test_seed());
  std::istringstream paths(CACHALOT_PROGRAMS_WITH_LINES);
  for (std::string path; std::getline(paths, path, ':');) {
    const Essence essence(path);
    MemoryImage image(essence.bytes());
    int known = 0;
    int unknown = 0;
    for (int round = 0; round < 400; ++round) {
      image.replace(round == 0 ? essence.bytes() : essence.damaged(random));
      LoadedFile file(image.path(), random.one_in(8) ? ElfFile(image.path()).build_id() : "");
      for (int i = 0; i < 10; ++i) {
        const uint64_t address = random.one_in(20) ? random.bits() : essence.address(random);
        ++(file.line_at(address).line != 0 && file.function_at(address) != "" ? known : unknown);
      }
      if (round == 0) {
        EXPECT_GE(known, 5) << path;
      }
    }
    // Damage that breaks everything, or nothing, is no test.
    EXPECT_GT(known, 400) << path;
    EXPECT_GT(unknown, 400) << path;
    std::cout << path << ": " << known << " known, " << unknown << " unknown\n";
  }
}

TEST(DamagedFiles, MayBeCutShortWhileTheyAreOpen) {
  std::istringstream paths(CACHALOT_PROGRAMS_WITH_LINES);
  std::string path;
  std::getline(paths, path, ':');
  const Essence essence(path);
  Random random(test_seed());
  MemoryImage image(essence.bytes());
  const ElfFile file(image.path());
  const LineTable lines(file);
  const SymbolTable functions(file);
  const uint64_t address = essence.address(random);
  image.replace(essence.bytes().substr(0, 100));
  EXPECT_EQ(lines.find(file, address).line, 0);
  EXPECT_EQ(functions.find(file, address), "");
}

}  // namespace
}  // namespace cachalot
