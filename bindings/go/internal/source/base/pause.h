// SPDX-License-Identifier: MIT OR Apache-2.0
// Waiting without giving the processor away.
#pragma once

namespace cachalot {

// So many of the processor's pauses, of 10 to 150 cycles each.
inline void pause_briefly(int times) {
  for (int i = 0; i < times; i++) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
}

}  // namespace cachalot
