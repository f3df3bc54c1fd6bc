// SPDX-License-Identifier: MIT OR Apache-2.0
// Which line of a source file the code at an address comes from, as the section .debug_line of a
// program or library says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "alloc/trace/elf_file.h"

namespace cachalot {

struct SourceLine {
  std::string file;
  uint64_t line = 0;  // 0: unknown
};

// Rows of all code would take more memory than the code. So only the sequences are kept, and a
// question runs the one program again that made the sequence of its address: 10 ns a byte of it,
// where all programs of a large library take seconds.
class LineTable {
 public:
  using Answer = SourceLine;
  static constexpr const char* kSection = ".debug_line";

  // Runs all programs of the file.
  explicit LineTable(const ElfFile& file);

  bool is_empty() const { return sequences_.empty(); }
  size_t bytes() const { return sequences_.capacity() * sizeof(Sequence); }

  // Of a file that has changed since all lines are unknown.
  SourceLine find(const ElfFile& file, uint64_t address) const;

 private:
  // The code from its first row to its end. Those of an index do not overlap unless a file is
  // damaged or a linker has folded equal functions into one; then one of them answers.
  struct Sequence {
    uint64_t begin;
    uint64_t end;
    uint64_t unit;  // where in the section
  };

  void add_sequences(const ElfFile& file, const std::vector<uint8_t>& unit, uint64_t offset);

  const FileVersion version_;
  std::vector<Sequence> sequences_;  // by their begin
};

}  // namespace cachalot
