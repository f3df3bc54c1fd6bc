// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/loaded_file.h"

#include <utility>

namespace cachalot {

LoadedFile::LoadedFile(std::string path, std::string build_id, std::string debug_folder)
    : path_(std::move(path)),
      build_id_(std::move(build_id)),
      debug_folder_(std::move(debug_folder)) {}

SourceLine LoadedFile::line_at(uint64_t address) { return ask(lines_, address); }

std::string LoadedFile::function_at(uint64_t address) { return ask(functions_, address); }

size_t LoadedFile::bytes() const {
  return sizeof *this + path_.size() + build_id_.size() + debug_folder_.size() +
         (lines_ ? lines_->bytes() : 0) + (functions_ ? functions_->bytes() : 0);
}

// A file without lines, or without symbols, is not opened again to find none.
template <typename Table>
typename Table::Answer LoadedFile::ask(std::optional<Table>& table, uint64_t address) const {
  if (table && table->is_empty()) return {};
  const ElfFile file = open(Table::kSection);
  if (!table) table.emplace(file);
  return table->find(file, address);
}

// The file itself, or what was stripped off it, whichever has the section.
ElfFile LoadedFile::open(const char* section) const {
  ElfFile file(path_);
  if (file.section(section))
    return build_id_.empty() || file.build_id() == build_id_ ? std::move(file) : ElfFile();
  if (build_id_.empty()) return ElfFile();
  ElfFile stripped(debug_folder_ + "/.build-id/" + build_id_.substr(0, 2) + "/" +
                   build_id_.substr(2) + ".debug");
  return stripped.build_id() == build_id_ ? std::move(stripped) : ElfFile();
}

}  // namespace cachalot
