// SPDX-License-Identifier: MIT OR Apache-2.0
// ELF files made in memory, and the units of line number programs in them.
#pragma once

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace cachalot {

inline std::string number_bytes(uint64_t value, size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A file without a name, which has a path all the same.
class MemoryImage {
 public:
  explicit MemoryImage(const std::string& bytes) : descriptor_(memfd_create("image", MFD_CLOEXEC)) {
    replace(bytes);
  }

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_.number()); }
  void replace(const std::string& bytes) {
    if (ftruncate(descriptor_.number(), 0) != 0 ||
        pwrite(descriptor_.number(), bytes.data(), bytes.size(), 0) !=
            static_cast<ssize_t>(bytes.size()))
      std::abort();
  }

 private:
  const Descriptor descriptor_;
};

struct ImageSection {
  std::string name;
  std::string contents;
  uint32_t type = SHT_PROGBITS;
  uint64_t flags = 0;
  uint64_t address = 0;
};

// The code of an image, without any bytes of it.
inline ImageSection code_section(uint64_t address, uint64_t size) {
  return {.name = ".text",
          .contents = std::string(size, '\0'),
          .flags = SHF_ALLOC | SHF_EXECINSTR,
          .address = address};
}

inline std::string elf_image(std::vector<ImageSection> sections) {
  sections.insert(sections.begin(), {.name = "", .type = SHT_NULL});
  sections.push_back({.name = ".shstrtab", .type = SHT_STRTAB});
  std::string& names = sections.back().contents;
  std::vector<Elf64_Shdr> headers;
  for (const ImageSection& section : sections) {
    Elf64_Shdr header{};
    header.sh_name = static_cast<Elf64_Word>(names.size());
    header.sh_type = section.type;
    header.sh_flags = section.flags;
    header.sh_addr = section.address;
    names += section.name + '\0';
    headers.push_back(header);
  }
  std::string contents;
  for (size_t i = 0; i < sections.size(); ++i) {
    headers[i].sh_offset = sizeof(Elf64_Ehdr) + contents.size();
    headers[i].sh_size = sections[i].contents.size();
    contents += sections[i].contents;
  }
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_shoff = sizeof header + contents.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(headers.size());
  header.e_shstrndx = static_cast<Elf64_Half>(headers.size() - 1);
  const std::string table(reinterpret_cast<const char*>(headers.data()),
                          headers.size() * sizeof headers[0]);
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + contents + table;
}

inline ImageSection build_id_section(const std::string& id) {
  return {.name = ".note.gnu.build-id",
          .contents = number_bytes(4, 4) + number_bytes(id.size(), 4) +
                      number_bytes(NT_GNU_BUILD_ID, 4) + std::string("GNU\0", 4) + id,
          .type = SHT_NOTE};
}

// ---- Operations of line number programs

inline std::string extended(uint8_t opcode, const std::string& operands) {
  return number_bytes(0, 1) + number_bytes(operands.size() + 1, 1) + number_bytes(opcode, 1) +
         operands;
}
inline std::string set_address(uint64_t address) { return extended(2, number_bytes(address, 8)); }
inline std::string end_sequence() { return extended(1, ""); }
inline std::string copy_row() { return "\1"; }
// Of less than 128, as all operands here.
inline std::string advance_address(uint8_t by) { return std::string("\2") + static_cast<char>(by); }
inline std::string advance_line(uint8_t by) { return std::string("\3") + static_cast<char>(by); }
inline std::string set_file(uint8_t number) {
  return std::string("\4") + static_cast<char>(number);
}

// Rows of lines 1 + 10 and 1 + 10 + 7, four bytes of code each.
inline std::string two_lines(uint64_t address) {
  return set_address(address) + advance_line(10) + copy_row() + advance_address(4) +
         advance_line(7) + copy_row() + advance_address(4) + end_sequence();
}

// ---- Units

struct LineUnit {
  uint64_t version = 4;
  bool is_64_bit = false;
  uint8_t operations = 1;  // of an instruction
  uint8_t line_range = 14;
  std::string more_operand_counts;  // of standard opcodes that the standard does not have
  std::string tables = std::string("\0\0", 2);  // of folders and files: none
  std::string program;
};

inline std::string unit_bytes(const LineUnit& unit) {
  const size_t offset_size = unit.is_64_bit ? 8 : 4;
  const std::string counts = std::string("\0\1\1\1\1\0\0\0\1\0\0\1", 12) + unit.more_operand_counts;
  std::string header = number_bytes(1, 1);  // bytes of the smallest instruction
  if (unit.version >= 4) header += number_bytes(unit.operations, 1);
  header += number_bytes(1, 1) + number_bytes(0xfb, 1);  // line base -5
  header += number_bytes(unit.line_range, 1) + number_bytes(counts.size() + 1, 1) + counts;
  header += unit.tables;
  std::string rest = number_bytes(unit.version, 2);
  if (unit.version >= 5) rest += number_bytes(8, 1) + number_bytes(0, 1);
  rest += number_bytes(header.size(), offset_size) + header + unit.program;
  return (unit.is_64_bit ? number_bytes(0xffffffff, 4) : "") +
         number_bytes(rest.size(), offset_size) + rest;
}

// Those of versions up to 4: one folder, and a file in it.
inline std::string old_tables(const std::string& folder, const std::string& file) {
  return folder + '\0' + std::string(1, '\0') + file + '\0' + "\1" + std::string(2, '\0') +
         std::string(1, '\0');
}

}  // namespace cachalot
