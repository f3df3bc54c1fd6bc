// SPDX-License-Identifier: MIT OR Apache-2.0
// Large zeroed tables that are touched only where they are used.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace cachalot {

inline void* map_zero_pages(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

inline void unmap_pages(void* memory, size_t bytes) { munmap(memory, bytes); }

}  // namespace cachalot
