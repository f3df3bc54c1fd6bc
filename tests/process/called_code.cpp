// SPDX-License-Identifier: MIT OR Apache-2.0
// Code of which a stack has two frames: that of a function which others see, and that of one which
// only this file knows.
#include "called_code.h"

[[gnu::noinline]] static void call_from_within(void (*call)(void*), void* data, int* line) {
  *line = __LINE__ + 1;
  call(data);
  asm volatile("");  // the call is not the last thing, which would be a jump
}

extern "C" [[gnu::visibility("default")]] void call_through(void (*call)(void*), void* data,
                                                            CalledLines* lines) {
  lines->outer = __LINE__ + 1;
  call_from_within(call, data, &lines->inner);
  asm volatile("");
}

// Nobody calls it, so that a linker may leave it out, but not its lines.
[[gnu::used, gnu::visibility("hidden")]] int left_out(int value) {
  for (int i = 0; i < value; ++i) value ^= i;
  return value;
}
