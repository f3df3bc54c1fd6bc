/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <cachalot/cachalot.h>
#include <stdio.h>

int main(void) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_allocator* allocator = NULL;
  cachalot_address address = 0;
  if (cachalot_allocator_create(NULL, &allocator, &error) != CACHALOT_OK ||
      cachalot_allocate(allocator, 1 << 20, 0, 0, &address, &error) != CACHALOT_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  printf("cachalot %s: 1 MiB at %#llx\n", cachalot_version(), (unsigned long long)address);
  cachalot_free(allocator, address, NULL);
  return cachalot_allocator_destroy(allocator, NULL) == CACHALOT_OK ? 0 : 1;
}
