// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames of native stacks for people: where the code of an address comes from.
//
// Note [Frames of native stacks]
// Rationale: a stack is captured at every hand-out, and is read by nobody in most runs. So capture
// keeps nothing but addresses, and all that they mean is looked up when somebody asks. The library
// depends on no other, so it reads what compilers and linkers leave in files by itself.
// Approach: an address goes through
//   - loaded_code.h: which program or library it is in, and at which address of the file;
//   - loaded_file.h: that file, or what was stripped off it, if it is still the one that was
//     loaded;
//   - line_table.h: the line of the source, by the programs of line_program.h;
//   - symbol_table.h: the function, where the loader does not know it;
//   - frame_texts.h: the text, which is kept.
// Of a file there is a sorted index in memory, of 24 bytes a piece of code and 16 a function; the
// rest is read again for each address that is new. A file may be damaged, or made to do harm: every
// number in it is compared with the size of what it is about, and every loop with what is left
// (byte_reader.h, elf_file.h). Bounds above which a file has no lines stand where they are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>

#include "alloc/trace/loaded_code.h"
#include "alloc/trace/loaded_file.h"
#include "base/mutex.h"

namespace cachalot {

// For any number of threads. Texts are kept, within bounds, until a library is unloaded: a snapshot
// has the same few frames again and again.
class FrameTexts {
 public:
  // So much may be kept of texts and of indexes of files. The index that was asked last is kept
  // however large it is.
  explicit FrameTexts(size_t most_text_bytes = size_t{16} << 20,
                      size_t most_index_bytes = size_t{64} << 20)
      : most_text_bytes_(most_text_bytes), most_index_bytes_(most_index_bytes) {}

  // One line for a return address: "file:line:function" where the debug information says it, else
  // "function (file+0x1234)", which has a number for addr2line.
  std::string text_of(const void* return_address);

 private:
  // All under the lock. What they give is good as long as that is held.
  const std::string* known_text(const LoadedCode& code, uintptr_t address);
  void keep(uintptr_t address, const std::string& text);
  LoadedFile& file_of(const LoadedCode& code, const char* path);

  const size_t most_text_bytes_;
  const size_t most_index_bytes_;
  Mutex mutex_{LockRank::kFrameTexts};
  uint64_t unloaded_ = 0;  // libraries, when the rest here was found
  std::unordered_map<uintptr_t, std::string> texts_;
  size_t text_bytes_ = 0;
  std::list<LoadedFile> files_;  // the one that was asked last comes first
};

}  // namespace cachalot
