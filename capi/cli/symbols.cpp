// SPDX-License-Identifier: MIT OR Apache-2.0
#include "symbols.h"

#include <elf.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "capture.h"
#include "numbers.h"

namespace cachalot::cli {
namespace {

// Where a place of the file lies for its symbols: files of 64 bits say which part is loaded where.
class LoadedParts {
 public:
  explicit LoadedParts(const std::string& path) {
    // A recording may name anything: a read of a pipe does not end.
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return;
    std::ifstream file(path, std::ios::binary);
    Elf64_Ehdr header{};
    if (!file.read(reinterpret_cast<char*>(&header), sizeof header) ||
        std::string(reinterpret_cast<const char*>(header.e_ident), 4) != ELFMAG ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
      return;
    parts_.resize(header.e_phnum);
    file.seekg(static_cast<std::streamoff>(header.e_phoff));
    file.read(reinterpret_cast<char*>(parts_.data()),
              static_cast<std::streamsize>(parts_.size() * sizeof(Elf64_Phdr)));
    if (!file) parts_.clear();
  }

  std::optional<uint64_t> address_of(uint64_t offset) const {
    for (const Elf64_Phdr& part : parts_)
      if (part.p_type == PT_LOAD && part.p_offset <= offset &&
          offset < part.p_offset + part.p_filesz)
        return offset - part.p_offset + part.p_vaddr;
    return std::nullopt;
  }

 private:
  std::vector<Elf64_Phdr> parts_;
};

// Two lines of addr2line: the function, and file and line, each with question marks for what it does not know.
std::string name_of(const std::string& function, const std::string& line) {
  if (function.starts_with("??")) return "";
  return line.find('?') != std::string::npos ? function : function + " at " + line;
}

void add_names(const std::string& path, const std::vector<uint64_t>& offsets,
               std::map<CodePlace, std::string>* names) {
  const LoadedParts parts(path);
  std::vector<std::string> command{"addr2line", "-f", "-C", "-e", path};
  std::vector<uint64_t> asked;
  for (const uint64_t offset : offsets) {
    // The call, not what it returns to.
    const auto address = offset == 0 ? std::nullopt : parts.address_of(offset - 1);
    if (!address) continue;
    command.push_back(hexadecimal(*address));
    asked.push_back(offset);
  }
  if (asked.empty()) return;
  const std::vector<std::string> lines = lines_of_output(command);
  for (size_t i = 0; i < asked.size() && 2 * i + 1 < lines.size(); i++) {
    const std::string name = name_of(lines[2 * i], lines[2 * i + 1]);
    if (!name.empty()) names->emplace(CodePlace{path, asked[i]}, name);
  }
}

}  // namespace

std::map<CodePlace, std::string> names_of(const std::set<CodePlace>& places) {
  std::map<std::string, std::vector<uint64_t>> by_file;
  for (const auto& [path, offset] : places) by_file[path].push_back(offset);
  std::map<CodePlace, std::string> names;
  for (const auto& [path, offsets] : by_file) add_names(path, offsets, &names);
  return names;
}

}  // namespace cachalot::cli
