/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program outside the project: is what was installed enough to get a block, and of one version?
 */
#include <cachalot/cachalot.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_driver* driver = NULL;
  cachalot_allocator_options options = {.struct_size = sizeof options, .config = ""};
  cachalot_address address = 0;
  cachalot_allocator* allocator = NULL;
  if (cachalot_version_number() != CACHALOT_VERSION_NUMBER ||
      strcmp(cachalot_version(), CACHALOT_VERSION_STRING) != 0) {
    fprintf(stderr, "the library is %s, its header %s\n", cachalot_version(),
            CACHALOT_VERSION_STRING);
    return 1;
  }
  if (cachalot_driver_open("sim:1GiB", &driver, &error) == CACHALOT_OK) {
    options.driver = driver;
    cachalot_allocator_create(&options, &allocator, &error);
    cachalot_driver_destroy(driver);
  }
  if (error.status != CACHALOT_OK ||
      cachalot_allocate(allocator, 1000, 0, 0, &address, &error) != CACHALOT_OK ||
      cachalot_free(allocator, address, &error) != CACHALOT_OK ||
      cachalot_allocator_destroy(allocator, &error) != CACHALOT_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  printf("cachalot %s\n", cachalot_version());
  return 0;
}
