// SPDX-License-Identifier: MIT OR Apache-2.0
// Large zeroed tables that are touched only where they are used.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include "base/units.h"

namespace cachalot {

inline void* map_zero_pages(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

// size: a power of two, and what the memory is aligned to.
inline void* map_aligned_zero_pages(size_t size) {
  CACHALOT_ASSERT(1, is_power_of_two(size));
  char* const memory = static_cast<char*>(map_zero_pages(2 * size));
  const size_t before = -reinterpret_cast<uintptr_t>(memory) & (size - 1);
  if (before != 0) munmap(memory, before);
  munmap(memory + before + size, size - before);
  CACHALOT_ASSERT(1, reinterpret_cast<uintptr_t>(memory + before) % size == 0);
  return memory + before;
}

// The whole pages of the system in this range (4 KiB, or up to 64 KiB on Arm) stay mapped, and read as
// zeros; the rest stays as it is.
inline void drop_pages(void* memory, size_t bytes) {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* const begin = static_cast<char*>(memory);
  const size_t before = -reinterpret_cast<uintptr_t>(memory) & (page - 1);
  if (bytes < before + page) return;
  madvise(begin + before, (bytes - before) & ~(page - 1), MADV_DONTNEED);
}

// Advice: small pages where little of a range may ever be touched, huge ones (2 MiB) where all of it
// is, so that the processor finds them faster.
inline void prefer_small_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_NOHUGEPAGE
  madvise(memory, bytes, MADV_NOHUGEPAGE);
#endif
}
inline void prefer_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(memory, bytes, MADV_HUGEPAGE);
#endif
}

inline void unmap_pages(void* memory, size_t bytes) { munmap(memory, bytes); }

}  // namespace cachalot
