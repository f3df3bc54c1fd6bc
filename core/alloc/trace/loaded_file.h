// SPDX-License-Identifier: MIT OR Apache-2.0
// The file that a loaded program or library comes from, and what it says of addresses.
//
// Systems strip off what only debuggers read, and put it into files of its own; the build id, which
// the linker computes from the contents, leads from one to the other. Other ways there are not
// followed: a link by name needs a checksum of the whole file, and a server of debug information is
// a matter of the user's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "alloc/trace/elf_file.h"
#include "alloc/trace/line_table.h"
#include "alloc/trace/symbol_table.h"

namespace cachalot {

// Opened for each question anew: an open file would be one more that a process hands on, or closes
// unasked. What was read of it counts as long as it is the same.
class LoadedFile {
 public:
  // Nothing is read before the first question.
  // build_id: of what was loaded, "" if it has none. With another one the file is not it any more,
  // and has no answers.
  // debug_folder: where the system has what was stripped off, each file by its build id.
  LoadedFile(std::string path, std::string build_id, std::string debug_folder = "/usr/lib/debug");

  const std::string& path() const { return path_; }
  const std::string& build_id() const { return build_id_; }
  // Of memory.
  size_t bytes() const;

  // Addresses are those in the file.
  SourceLine line_at(uint64_t address);
  // As the linker has it; "" where it is unknown.
  std::string function_at(uint64_t address);

 private:
  // Makes the table at the first question.
  template <typename Table>
  typename Table::Answer ask(std::optional<Table>& table, uint64_t address) const;
  ElfFile open(const char* section) const;

  const std::string path_;
  const std::string build_id_;
  const std::string debug_folder_;
  std::optional<LineTable> lines_;
  std::optional<SymbolTable> functions_;
};

}  // namespace cachalot
