// SPDX-License-Identifier: MIT OR Apache-2.0
// What tells running threads apart in one instruction. thread_number.h costs a call in a library that is loaded later.
#pragma once

#include <cstdint>

namespace cachalot {

inline constexpr uintptr_t kNoThread = 0;

// The address of the thread's control block, which no other thread has as long as it runs; kNoThread where the processor
// does not tell.
inline uintptr_t thread_pointer() {
#if defined(__x86_64__)
  uintptr_t pointer;
  asm("mov %%fs:0, %0" : "=r"(pointer));  // the block begins with its own address (System V ABI)
  return pointer;
#elif defined(__aarch64__)
  return reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
#else
  return kNoThread;
#endif
}

}  // namespace cachalot
