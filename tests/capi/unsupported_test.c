/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What this version does not have: arguments are checked, nothing changes, the answer is
 * NOT_SUPPORTED. */
#include "check.h"

static void every_function_answers_that_it_is_not_supported(void) {
  fixture with = open_fixture();
  cachalot_allocator* const allocator = with.allocator;
  const cachalot_address block = allocate_on(with, 512, 0);
  unsigned char shared[64] = {0};
  size_t size = 11;
  uint64_t offset = 12;
  cachalot_address address = 13;

  CHECK_FAILS_WITH(
      cachalot_share(allocator, block, shared, sizeof shared, &size, &offset, &last_error),
      CACHALOT_ERROR_NOT_SUPPORTED, "this version has no sharing between processes");
  CHECK_FAILS_WITH(cachalot_open_shared(allocator, 0, shared, sizeof shared, &address, &last_error),
                   CACHALOT_ERROR_NOT_SUPPORTED, "this version has no sharing between processes");
  CHECK_FAILS_WITH(cachalot_copy(allocator, block, 0, block, 1, 256, 0, &last_error),
                   CACHALOT_ERROR_NOT_SUPPORTED, "this version has no copies between devices");

  CHECK_EQUAL(size, 11);
  CHECK_EQUAL(offset, 12);
  CHECK_EQUAL(address, 13);
  free_block(with, block);
  close_fixture(with);
}

static void arguments_are_checked_first(void) {
  fixture with = open_fixture();
  cachalot_allocator* const allocator = with.allocator;
  unsigned char shared[64] = {0};
  size_t size = 0;
  uint64_t offset = 0;
  cachalot_address address = 0;

  CHECK_FAILS(cachalot_share(allocator, 0x1000, shared, sizeof shared, &size, &offset, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_open_shared(allocator, 2, shared, sizeof shared, &address, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_open_shared(allocator, 0, NULL, 64, &address, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_open_shared(allocator, 0, shared, 0, &address, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS_WITH(cachalot_copy(allocator, 1, 0, 1, 7, 1, 0, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "from_device is 7: the driver has 2");
  CHECK_FAILS_WITH(cachalot_copy(allocator, 0, 0, 1, 1, 1, 0, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "to is 0");
  close_fixture(with);
}

int main(void) {
  RUN(every_function_answers_that_it_is_not_supported);
  RUN(arguments_are_checked_first);
  return report();
}
