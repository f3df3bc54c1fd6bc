// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions of a program or library by its section .symtab, which has also those that the
// loader does not know: static ones, hidden ones, and all of a program, which exports none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "alloc/trace/elf_file.h"

namespace cachalot {

// Names stay in the file; an index says where.
class SymbolTable {
 public:
  using Answer = std::string;
  static constexpr const char* kSection = ".symtab";

  explicit SymbolTable(const ElfFile& file);

  bool is_empty() const { return functions_.empty(); }
  size_t bytes() const { return functions_.capacity() * sizeof(Function); }

  // The name of the function that an address is in, as the linker has it. "" without one, and of a
  // file that has changed since.
  std::string find(const ElfFile& file, uint64_t address) const;

 private:
  struct Function {
    uint64_t begin;
    uint32_t size;
    uint32_t name;  // where in .strtab
  };

  const FileVersion version_;
  std::vector<Function> functions_;  // by their begin
};

}  // namespace cachalot
