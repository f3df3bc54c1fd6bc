// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/trace/line_program.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace cachalot {

namespace {

// DW_LNS_…, DW_LNE_…, DW_LNCT_… and DW_FORM_… of the standard: opcodes, what the entries of a table
// have, and how that is written.
enum StandardOpcode : uint64_t {
  kLnsCopy = 1,
  kLnsAdvancePc = 2,
  kLnsAdvanceLine = 3,
  kLnsSetFile = 4,
  kLnsConstAddPc = 8,
  kLnsFixedAdvancePc = 9,
};
enum ExtendedOpcode : uint64_t { kLneEndSequence = 1, kLneSetAddress = 2 };
enum Content : uint64_t { kLnctPath = 1, kLnctDirectoryIndex = 2 };
enum Form : uint64_t {
  kFormData2 = 0x05,
  kFormData4 = 0x06,
  kFormData8 = 0x07,
  kFormString = 0x08,
  kFormBlock = 0x09,
  kFormData1 = 0x0b,
  kFormStrp = 0x0e,
  kFormUdata = 0x0f,
  kFormData16 = 0x1e,
  kFormLineStrp = 0x1f,
};

constexpr size_t kLargestNumber = 8;

std::string joined(std::string_view folder, std::string_view name) {
  if (folder.empty() || name.empty() || name.front() == '/') return std::string(name);
  return std::string(folder) + "/" + std::string(name);
}

// A value in a table of version 5: a number, or a text.
struct FormValue {
  uint64_t number = 0;
  std::string_view text;     // in the unit, or
  const char* section = "";  // in this section, where `number` says
};

// The standard allows these forms only for what a table tells of a file. Each takes a byte at
// least, so that every table ends; behind an unknown one nothing more can be read.
FormValue read_value(ByteReader& tables, uint64_t form, size_t offset_size) {
  switch (form) {
    case kFormString:
      return {.text = tables.text()};
    case kFormStrp:
      return {.number = tables.number(offset_size), .section = ".debug_str"};
    case kFormLineStrp:
      return {.number = tables.number(offset_size), .section = ".debug_line_str"};
    case kFormData1:
      return {.number = tables.byte()};
    case kFormData2:
      return {.number = tables.number(2)};
    case kFormData4:
      return {.number = tables.number(4)};
    case kFormData8:
      return {.number = tables.number(8)};
    case kFormUdata:
      return {.number = tables.unsigned_leb()};
    case kFormData16:
      tables.bytes(16);
      return {};
    case kFormBlock:
      tables.bytes(tables.unsigned_leb());
      return {};
    default:
      tables.fail();
      return {};
  }
}

struct TableEntry {
  FormValue name;
  uint64_t folder = 0;
};

// The entry with this number of a table of version 5, which is read to its end. An empty one if
// there is none. A table begins with pairs of a content and a form, as many as each of its entries
// has values; then come the count of the entries, and these.
TableEntry read_table(ByteReader& tables, uint64_t number, size_t offset_size) {
  std::vector<std::pair<uint64_t, uint64_t>> formats(tables.byte());
  for (auto& [content, form] : formats) {
    content = tables.unsigned_leb();
    form = tables.unsigned_leb();
  }
  const uint64_t count = formats.empty() ? 0 : tables.unsigned_leb();
  TableEntry found;
  for (uint64_t i = 0; i < count && !tables.is_at_end(); ++i) {
    TableEntry entry;
    for (const auto& [content, form] : formats) {
      const FormValue value = read_value(tables, form, offset_size);
      if (content == kLnctPath) entry.name = value;
      if (content == kLnctDirectoryIndex) entry.folder = value.number;
    }
    if (i == number) found = entry;
  }
  return tables.has_failed() ? TableEntry{} : found;
}

}  // namespace

LineProgram::LineProgram(const ElfFile& file, std::span<const uint8_t> unit) : file_(file) {
  read_header(ByteReader(unit));
}

// What is not understood leaves the program empty. Behind the tables there may be more, which the
// header's length skips.
void LineProgram::read_header(ByteReader unit) {
  if (unit.number(4) == kDwarf64) {
    offset_size_ = 8;
    unit.number(8);
  }
  version_ = unit.number(2);
  if (version_ < 2 || version_ > 5) return;
  if (version_ >= 5) unit.bytes(2);  // the sizes of an address and of a segment's number
  ByteReader header(unit.bytes(unit.number(offset_size_)));
  instruction_size_ = header.byte();
  if (version_ >= 4) operations_ = std::max<uint64_t>(header.byte(), 1);
  header.byte();  // whether rows are statements at first
  const uint64_t line_base = header.byte();
  line_base_ = line_base < 0x80 ? line_base : line_base - 0x100;
  line_range_ = header.byte();
  opcode_base_ = header.byte();
  operand_counts_ = header.bytes(opcode_base_ - 1);
  if (header.has_failed() || line_range_ == 0) return;
  tables_ = header;
  program_ = unit;
}

// The registers begin anew behind each sequence.
const LineRow* LineProgram::next_row() {
  CACHALOT_ASSERT(1, operation_ < operations_);
  if (row_.ends_sequence) {
    row_ = {};
    operation_ = 0;
  }
  while (!program_.is_at_end())
    if (run_operation()) return &row_;
  return nullptr;
}

// A special opcode is a step of the address and of the line in one byte.
bool LineProgram::run_operation() {
  const uint64_t opcode = program_.byte();
  if (opcode == 0) return run_extended();
  if (opcode < opcode_base_) return run_standard(opcode);
  advance((opcode - opcode_base_) / line_range_);
  row_.line += line_base_ + (opcode - opcode_base_) % line_range_;
  return true;
}

// A file may have more or fewer standard opcodes than its version has; the header says how many
// operands each takes.
bool LineProgram::run_standard(uint64_t opcode) {
  switch (opcode) {
    case kLnsCopy:
      return true;
    case kLnsAdvancePc:
      advance(program_.unsigned_leb());
      break;
    case kLnsAdvanceLine:
      row_.line += static_cast<uint64_t>(program_.signed_leb());
      break;
    case kLnsSetFile:
      row_.file = program_.unsigned_leb();
      break;
    case kLnsConstAddPc:
      advance((255 - opcode_base_) / line_range_);
      break;
    case kLnsFixedAdvancePc:
      row_.address += program_.number(2);
      operation_ = 0;
      break;
    default:  // about columns and the like, or of a later version
      for (uint8_t i = 0; i < operand_counts_[opcode - 1]; ++i) program_.unsigned_leb();
  }
  return false;
}

// Those of later versions, and of compilers, are skipped by their length.
bool LineProgram::run_extended() {
  ByteReader operands(program_.bytes(program_.unsigned_leb()));
  const uint64_t opcode = operands.byte();
  if (opcode == kLneSetAddress) {
    row_.address = operands.number(std::min(operands.size(), kLargestNumber));
    operation_ = 0;
  }
  row_.ends_sequence = opcode == kLneEndSequence;
  return row_.ends_sequence;
}

// Some machines have several operations in one instruction. Addresses are those of instructions.
void LineProgram::advance(uint64_t operations) {
  operation_ += operations;
  row_.address += instruction_size_ * (operation_ / operations_);
  operation_ %= operations_;
}

std::string LineProgram::file_name(uint64_t number) const {
  return version_ >= 5 ? new_file_name(number) : old_file_name(number);
}

// The table of folders has their names; that of files has for each its name, the number of its
// folder, when it was changed, and its size. An empty name ends each of them. Files and folders
// count from 1. Folder 0 is the one that the compiler was started in; its name is in another
// section.
std::string LineProgram::old_file_name(uint64_t number) const {
  ByteReader tables = tables_;
  std::vector<std::string_view> folders;
  for (auto folder = tables.text(); !folder.empty(); folder = tables.text())
    folders.push_back(folder);
  for (uint64_t i = 1;; ++i) {
    const std::string_view name = tables.text();
    const uint64_t folder = tables.unsigned_leb();
    tables.unsigned_leb();  // when it was changed
    tables.unsigned_leb();  // its size
    if (name.empty() || tables.has_failed()) return "";
    if (i == number)
      return joined(folder - 1 < folders.size() ? folders[folder - 1] : std::string_view(), name);
  }
}

// The two tables have the same form. Files and folders count from 0. Folder 0 is the one that the
// compiler was started in, to which the names of the others are relative. Names are read when the
// entry that is wanted is known: most are in another section.
std::string LineProgram::new_file_name(uint64_t number) const {
  const auto text = [this](const FormValue& value) {
    return *value.section != '\0' ? file_.text_at(value.section, value.number)
                                  : std::string(value.text);
  };
  const auto folder_name = [&](uint64_t folder) {
    ByteReader tables = tables_;
    return text(read_table(tables, folder, offset_size_).name);
  };
  ByteReader tables = tables_;
  read_table(tables, 0, offset_size_);  // of folders
  const TableEntry file = read_table(tables, number, offset_size_);
  const std::string folder = folder_name(file.folder);
  return joined(file.folder == 0 ? folder : joined(folder_name(0), folder), text(file.name));
}

}  // namespace cachalot
