// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

// Where called_code.cpp makes its calls.
struct CalledLines {
  int outer;
  int inner;
};

extern "C" void call_through(void (*call)(void*), void* data, CalledLines* lines);
