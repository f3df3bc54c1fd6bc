/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The public header is C99 (built with -std=c99 -pedantic-errors), and what it shows as an example
 * runs. */
#include <stdio.h>

#include "cachalot/cachalot.h"

int main(void) {
  cachalot_driver* driver = NULL;
  cachalot_allocator* allocator = NULL;
  cachalot_allocator_options options = {.struct_size = sizeof(cachalot_allocator_options)};
  cachalot_address address = 0;
  cachalot_error error = CACHALOT_ERROR_INIT;
  int failed = 1;

  if (cachalot_driver_create_host(0, 0, &driver, &error) == CACHALOT_OK) {
    options.driver = driver;
    failed = cachalot_allocator_create(&options, &allocator, &error) != CACHALOT_OK ||
             cachalot_allocate(allocator, 1 << 20, 0, 0, &address, &error) != CACHALOT_OK ||
             cachalot_free(allocator, address, &error) != CACHALOT_OK ||
             cachalot_allocator_destroy(allocator, &error) != CACHALOT_OK;
  }
  cachalot_driver_destroy(driver);
  if (failed) fprintf(stderr, "%s\n", error.message);
  return failed;
}
