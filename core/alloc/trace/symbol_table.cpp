// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/symbol_table.h"

#include <algorithm>
#include <cstring>

namespace cachalot {

namespace {

constexpr uint64_t kSymbolsAtOnce = 4096;
// All further ones have no names: that bounds the memory and the time which one file takes.
constexpr uint64_t kMostSymbols = uint64_t{1} << 22;
constexpr size_t kMostFunctions = size_t{1} << 20;

}  // namespace

// The linker sorts by other things, so that the whole table is read.
SymbolTable::SymbolTable(const ElfFile& file) : version_(file.version()) {
  const Elf64_Shdr* const section = file.section(kSection);
  const uint64_t count = section ? std::min(section->sh_size / sizeof(Elf64_Sym), kMostSymbols) : 0;
  for (uint64_t first = 0; first < count; first += kSymbolsAtOnce) {
    const uint64_t some = std::min(count - first, kSymbolsAtOnce);
    const std::vector<uint8_t> bytes =
        file.read(*section, first * sizeof(Elf64_Sym), some * sizeof(Elf64_Sym));
    for (size_t at = 0; at < bytes.size(); at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, bytes.data() + at, sizeof symbol);
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_size > 0 &&
          symbol.st_size <= UINT32_MAX && functions_.size() < kMostFunctions)
        functions_.push_back({.begin = symbol.st_value,
                              .size = static_cast<uint32_t>(symbol.st_size),
                              .name = symbol.st_name});
    }
  }
  std::sort(functions_.begin(), functions_.end(),
            [](const Function& a, const Function& b) { return a.begin < b.begin; });
  functions_.shrink_to_fit();
}

// Of functions at the same address, which are one function by several names, any will do.
std::string SymbolTable::find(const ElfFile& file, uint64_t address) const {
  auto found = std::upper_bound(
      functions_.begin(), functions_.end(), address,
      [](uint64_t value, const Function& function) { return value < function.begin; });
  if (file.version() != version_ || found == functions_.begin() ||
      address - (--found)->begin >= found->size)
    return "";
  return file.text_at(".strtab", found->name);
}

}  // namespace cachalot
