// SPDX-License-Identifier: MIT OR Apache-2.0
// The public header is C++11 (built with -std=c++11 -pedantic-errors), and its functions have C
// linkage.
#include <type_traits>

#include "cachalot/cachalot.h"

static_assert(std::is_standard_layout<cachalot_error>::value, "a C struct");
static_assert(std::is_trivial<cachalot_allocator_options>::value, "a C struct");

int main() {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_allocator* allocator = nullptr;
  return cachalot_allocator_destroy(allocator, &error) == CACHALOT_OK &&
                 error.struct_size == sizeof(cachalot_error) && error.message[0] == '\0'
             ? 0
             : 1;
}
