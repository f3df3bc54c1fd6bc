// SPDX-License-Identifier: MIT OR Apache-2.0
// A program, library or file of debug information that is open for reading: an ELF file of 64 bits,
// little-endian on such a machine. Nothing that it says of itself is trusted.
#pragma once

#include <elf.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"

namespace cachalot {

// Which contents a file had.
struct FileVersion {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t changed_s = 0;
  int64_t changed_ns = 0;

  bool operator==(const FileVersion&) const = default;
};

// Bytes are read, never mapped: where another process cuts the file short, a mapping would end this
// process by SIGBUS, while a read fails. A section is read a piece at a time, so that its size
// costs no memory.
class ElfFile {
 public:
  // It has no sections, and neither has what is no such file.
  ElfFile() = default;
  explicit ElfFile(const std::string& path);

  const FileVersion& version() const { return version_; }

  // Null where there is none with contents that can be read as they are (compressed ones need a
  // library).
  const Elf64_Shdr* section(std::string_view name) const;
  // Whether code lies at an address of the file.
  bool has_code_at(uint64_t address) const;
  // The bytes of a part of a section; none where not all of them can be read. The caller bounds the
  // size.
  std::vector<uint8_t> read(const Elf64_Shdr& section, uint64_t offset, uint64_t size) const;
  // A text in a section of texts; "" for one that is none.
  std::string text_at(std::string_view section, uint64_t offset) const;
  // In hexadecimal digits; "" without one.
  std::string build_id() const;

 private:
  void read_sections(const Elf64_Ehdr& header);
  // False where the file ends before.
  bool read_bytes(uint64_t offset, std::span<uint8_t> out) const;
  // Whether the file has all of its contents.
  bool fits(const Elf64_Shdr& section) const;

  Descriptor descriptor_;
  FileVersion version_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<uint8_t> names_;  // of sections; ends in a zero
};

// The build id among ELF notes; empty without one.
std::span<const uint8_t> build_id_in(std::span<const uint8_t> notes);

}  // namespace cachalot
