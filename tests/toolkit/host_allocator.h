/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the programs that include a toolkit's header share: an allocator over ordinary memory, and
 * checks that end the program with a line. C99, C++11 and later. */
#ifndef TESTS_TOOLKIT_HOST_ALLOCATOR_H_
#define TESTS_TOOLKIT_HOST_ALLOCATOR_H_

#include <stdio.h>
#include <stdlib.h>

#include "cachalot/cachalot.h"

static inline void check_that(int is_true, const char* claim) {
  if (is_true) return;
  fprintf(stderr, "not so: %s\n", claim);
  exit(1);
}
#define CHECK(claim) check_that((claim), #claim)

static inline cachalot_allocator* open_host_allocator(void) {
  cachalot_driver* driver = NULL;
  cachalot_allocator* allocator = NULL;
  cachalot_allocator_options options = {sizeof options};
  CHECK(cachalot_driver_create_host(0, 1, &driver, NULL) == CACHALOT_OK);
  options.driver = driver;
  options.config = "";
  CHECK(cachalot_allocator_create(&options, &allocator, NULL) == CACHALOT_OK);
  cachalot_driver_destroy(driver);
  return allocator;
}

/* The stream whose block lies at an address. */
static inline cachalot_stream stream_of_block(cachalot_allocator* allocator,
                                              cachalot_address address) {
  cachalot_block block = {sizeof block};
  CHECK(cachalot_get_block(allocator, address, &block, NULL) == CACHALOT_OK);
  return block.stream;
}

#endif /* TESTS_TOOLKIT_HOST_ALLOCATOR_H_ */
