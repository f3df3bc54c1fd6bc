// SPDX-License-Identifier: MIT OR Apache-2.0
// Assertions: what must hold at a place if the library is right, whatever its callers do.
//
//   CACHALOT_ASSERT(1, block->is_free());
//
// CACHALOT_ASSERT_LEVEL, the same in all objects of a library, says which are compiled in:
//   0  none: a condition is compiled but never evaluated, and costs no instruction
//   1  those of level 1, which compare what is at hand
//   2  all: those of level 2 walk lists and tables, or stand in a hot loop
// One that fails writes a line to stderr and aborts. Callers' mistakes are errors (error.h), never
// assertions.
#pragma once

#ifndef CACHALOT_ASSERT_LEVEL
#define CACHALOT_ASSERT_LEVEL 0
#endif

// An expression, also in constexpr functions.
#define CACHALOT_ASSERT(level, ...)                                  \
  ((level) > CACHALOT_ASSERT_LEVEL || static_cast<bool>(__VA_ARGS__) \
       ? static_cast<void>(0)                                        \
       : ::cachalot::assertion_failed(__FILE__, __LINE__, __func__, #__VA_ARGS__))

namespace cachalot {

[[noreturn, gnu::cold]] void assertion_failed(const char* file, int line, const char* function,
                                              const char* condition);

}  // namespace cachalot
