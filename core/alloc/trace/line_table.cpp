// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/line_table.h"

#include <algorithm>

#include "alloc/trace/byte_reader.h"
#include "alloc/trace/line_program.h"
#include "base/assert.h"

namespace cachalot {

namespace {

// What is above has no lines: that bounds the memory and the time which one file takes. PyTorch's
// largest library has a section of some 100 MiB.
constexpr uint64_t kMostSectionBytes = uint64_t{512} << 20;
constexpr uint64_t kMostUnitBytes = uint64_t{64} << 20;
constexpr uint64_t kMostUnits = uint64_t{1} << 20;
constexpr size_t kMostSequences = size_t{1} << 20;

// Of a unit, with the length that it begins with; 0 if that is damaged. Lengths of 0 would be
// endless.
uint64_t unit_size(const ElfFile& file, const Elf64_Shdr& section, uint64_t offset) {
  const uint64_t left = section.sh_size - offset;
  const std::vector<uint8_t> begin = file.read(section, offset, std::min<uint64_t>(left, 12));
  ByteReader reader(begin);
  uint64_t length_bytes = 4;
  uint64_t length = reader.number(4);
  if (length == kDwarf64) {
    length_bytes = 12;
    length = reader.number(8);
  }
  const bool is_sound = !reader.has_failed() && length > 0 && length <= left - length_bytes;
  return is_sound ? length_bytes + length : 0;
}

std::vector<uint8_t> read_unit(const ElfFile& file, const Elf64_Shdr& section, uint64_t offset) {
  const uint64_t size = unit_size(file, section, offset);
  return size <= kMostUnitBytes ? file.read(section, offset, size) : std::vector<uint8_t>();
}

}  // namespace

// One unit after another is in memory.
LineTable::LineTable(const ElfFile& file) : version_(file.version()) {
  const Elf64_Shdr* const section = file.section(kSection);
  if (!section || section->sh_size > kMostSectionBytes) return;
  uint64_t offset = 0;
  for (uint64_t units = 0; units < kMostUnits && offset < section->sh_size; ++units) {
    const uint64_t size = unit_size(file, *section, offset);
    if (size == 0) break;  // where the next one begins is unknown
    if (size <= kMostUnitBytes) add_sequences(file, file.read(*section, offset, size), offset);
    offset += size;
  }
  std::sort(sequences_.begin(), sequences_.end(),
            [](const Sequence& a, const Sequence& b) { return a.begin < b.begin; });
  sequences_.shrink_to_fit();
}

// A function that the linker has left out keeps its lines, at an address without code.
void LineTable::add_sequences(const ElfFile& file, const std::vector<uint8_t>& unit,
                              uint64_t offset) {
  LineProgram program(file, unit);
  uint64_t begin = 0;
  bool is_first = true;
  while (const LineRow* const row = program.next_row()) {
    if (is_first) begin = row->address;
    is_first = row->ends_sequence;
    if (row->ends_sequence && begin < row->address && sequences_.size() < kMostSequences &&
        file.has_code_at(begin))
      sequences_.push_back({.begin = begin, .end = row->address, .unit = offset});
  }
}

// A sequence is known by its begin, since a unit may have others at addresses without code.
SourceLine LineTable::find(const ElfFile& file, uint64_t address) const {
  const Elf64_Shdr* const section = file.section(kSection);
  auto found = std::upper_bound(
      sequences_.begin(), sequences_.end(), address,
      [](uint64_t value, const Sequence& sequence) { return value < sequence.begin; });
  if (!section || file.version() != version_) return {};
  if (found == sequences_.begin() || address >= (--found)->end) return {};
  CACHALOT_ASSERT(1, found->begin <= address && found->begin < found->end);
  const std::vector<uint8_t> unit = read_unit(file, *section, found->unit);
  LineProgram program(file, unit);
  LineRow last{.ends_sequence = true};
  bool is_found_sequence = false;
  while (const LineRow* const row = program.next_row()) {
    if (last.ends_sequence)
      is_found_sequence = row->address == found->begin;
    else if (is_found_sequence && last.address <= address && address < row->address)
      return {.file = program.file_name(last.file), .line = last.line};
    last = *row;
  }
  return {};
}

}  // namespace cachalot
