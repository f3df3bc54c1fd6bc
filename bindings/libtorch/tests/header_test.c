/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The header is plain C, and complete. */
#include "cachalot/libtorch.h"

cachalot_status cachalot_libtorch_header_test(cachalot_allocator* allocator) {
  return cachalot_libtorch_install(allocator, CACHALOT_LIBTORCH_SAME_RELEASE, NULL);
}
