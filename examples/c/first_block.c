/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The first block: make an allocator, get a mebibyte, give it back. */
#include <cachalot/cachalot.h>
#include <inttypes.h>
#include <stdio.h>

int main(void) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_allocator* allocator = NULL;
  cachalot_address address = 0;
  if (cachalot_allocator_create(NULL, &allocator, &error) != CACHALOT_OK ||
      cachalot_allocate(allocator, 1 << 20, 0, 0, &address, &error) != CACHALOT_OK) {
    fprintf(stderr, "%s\n", error.message);
  } else {
    printf("1 MiB at %#" PRIx64 " on device 0\n", address);
    cachalot_free(allocator, address, NULL);
  }
  cachalot_allocator_destroy(allocator, NULL);
  return error.status == CACHALOT_OK ? 0 : 1;
}
