// SPDX-License-Identifier: MIT OR Apache-2.0
// How programs ask for memory and give it back, by the letters of docs/trace-format.md.
#pragma once

#include <algorithm>
#include <array>

namespace cachalot::cli {

struct EntryName {
  char letter;
  const char* requests;
  const char* returns;
};

inline constexpr std::array<EntryName, 12> kEntries{{
    {'s', "cuMemAlloc", "cuMemFree"},
    {'h', "cuMemAllocPitch", "cuMemFree, pitched"},
    {'t', "cuMemAllocAsync", "cuMemFreeAsync"},
    {'p', "cuMemAllocFromPoolAsync", "cuMemFreeAsync, of pools"},
    {'v', "virtual memory: create, map", "unmap, release"},
    {'m', "cuMemAllocManaged", "cuMemFree, managed"},
    {'l', "page-locked host memory", "cuMemFreeHost"},
    {'r', "cuMemHostRegister", "cuMemHostUnregister"},
    {'y', "arrays", "arrays, destroyed"},
    {'i', "memory of other processes", "closed"},
    {'n', "nodes of graphs", "freed in graphs"},
    {'\0', "other", "other, given back"},
}};

// The last one for a letter that is none of these.
inline const EntryName& entry_of(char letter) {
  const auto* const found =
      std::find_if(kEntries.begin(), kEntries.end() - 1,
                   [&](const EntryName& entry) { return entry.letter == letter; });
  return *found;
}

}  // namespace cachalot::cli
