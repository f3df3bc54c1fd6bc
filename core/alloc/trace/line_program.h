// SPDX-License-Identifier: MIT OR Apache-2.0
// A line number program: which lines the code of one unit of .debug_line comes from.
//
// Note [Line number programs]
// Rationale: a table with a row for each instruction would be larger than the code. So compilers
// write a program for a small machine that makes the rows (DWARF 2 to 5, chapter "Line Number
// Information").
// Approach: the section is a row of units, one for each source that was compiled. A unit is
//   - a header: the version, and how opcodes are to be read;
//   - the table of folders and that of files;
//   - the program. The machine has the columns of a row as registers. Standard and extended opcodes
//     set one of them; a special opcode, which is all other numbers of a byte, moves address and
//     line a little and makes a row.
// Rows are in sequences, one for each piece of code that the linker may place by itself. Version 5
// differs in the form of the tables, each of which says itself what its entries have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "alloc/trace/byte_reader.h"
#include "alloc/trace/elf_file.h"

namespace cachalot {

// In the place of a unit's length in the 64-bit format: the length follows in 8 bytes.
constexpr uint64_t kDwarf64 = 0xffffffff;

// The code from an address up to that of the next row is of this line. The rows of one sequence
// have rising addresses; its last one only says where it ends.
struct LineRow {
  uint64_t address = 0;
  uint64_t file = 1;
  uint64_t line = 1;  // 0: the code is of no line
  bool ends_sequence = false;
};

// Whatever the bytes are, it takes time in proportion to their count.
class LineProgram {
 public:
  // The unit begins with its length; one of an unknown version has no rows. Its bytes and the file,
  // which has the texts that it refers to, must outlive the program.
  LineProgram(const ElfFile& file, std::span<const uint8_t> unit);

  // Runs up to the next row, which stays as it is until the next call; null behind the last.
  const LineRow* next_row();

  // With the folder, as the compiler was given them; "" for a number that no file has.
  std::string file_name(uint64_t number) const;

 private:
  void read_header(ByteReader unit);

  // They run the next operation, and say whether it has made a row.
  bool run_operation();
  bool run_standard(uint64_t opcode);
  bool run_extended();
  void advance(uint64_t operations);

  // Up to version 4, and in version 5.
  std::string old_file_name(uint64_t number) const;
  std::string new_file_name(uint64_t number) const;

  const ElfFile& file_;

  // Of the header.
  uint64_t version_ = 0;
  size_t offset_size_ = 4;  // of offsets into sections: 8 in the 64-bit format
  uint64_t instruction_size_ = 1;
  uint64_t operations_ = 1;  // of an instruction
  uint64_t line_base_ = 0;   // modulo 2^64, as lines
  uint64_t line_range_ = 1;
  uint64_t opcode_base_ = 1;
  std::span<const uint8_t> operand_counts_;  // of standard opcodes, from 1 on
  ByteReader tables_;                        // of folders and files

  // Of the machine.
  ByteReader program_;  // what is left of it
  LineRow row_;
  uint64_t operation_ = 0;  // of the instruction at the row's address
};

}  // namespace cachalot
