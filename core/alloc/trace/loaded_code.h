// SPDX-License-Identifier: MIT OR Apache-2.0
// Which program or library of this process an address belongs to.
//
// The loader tells it (dl_iterate_phdr), without the files: they may be gone, or others by now.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cachalot {

// No pointer into the loader's tables, which change when libraries come and go.
struct LoadedCode {
  uintptr_t begin = 0;  // of the loaded part that has the address; equal to the end: there is none
  uintptr_t end = 0;
  uintptr_t bias = 0;  // between addresses in the file and those in memory
  bool is_program = false;
  uint64_t unloaded = 0;  // libraries so far: at a number that has changed there may be another one
  std::array<uint8_t, 32> build_id{};
  size_t build_id_size = 0;  // 0: none

  bool is_known() const { return begin != end; }
  bool contains(uintptr_t at) const { return at >= begin && at < end; }
};

// Takes a lock of the loader, and no memory.
LoadedCode loaded_code_at(uintptr_t address);

}  // namespace cachalot
