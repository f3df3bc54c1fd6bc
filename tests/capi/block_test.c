/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Blocks: allocation, free, use on other streams, what is known of them. */
#include "check.h"

static void a_block_is_handed_out_and_given_back(void) {
  fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 512, 0);
  CHECK_EQUAL(block, FIRST_ADDRESS);
  free_block(with, block);
  CHECK_EQUAL(allocate_on(with, 512, 0), block);
  free_block(with, block);
  close_fixture(with);
}

static void another_stream_gets_other_memory(void) {
  fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 512, 0);
  cachalot_address other;
  free_block(with, block);
  other = allocate_on(with, 512, 0x10);
  CHECK(other != block);
  free_block(with, other);
  close_fixture(with);
}

static void no_bytes_have_no_address(void) {
  fixture with = open_fixture();
  cachalot_address address = 77;
  CHECK_OK(cachalot_allocate(with.allocator, 0, 0, 0, &address, &last_error));
  CHECK_EQUAL(address, 0);
  CHECK_EQUAL(cachalot_memory_reserved(with.allocator, 0), 0);
  CHECK_OK(cachalot_free(with.allocator, 0, &last_error));
  close_fixture(with);
}

static void a_double_free_is_refused(void) {
  fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 512, 0);
  free_block(with, block);
  CHECK_FAILS_WITH(cachalot_free(with.allocator, block, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "invalid device pointer: 0x700000000000");
  CHECK_EQUAL(cachalot_memory_allocated(with.allocator, 0), 0);
  close_fixture(with);
}

static void a_foreign_address_is_refused(void) {
  fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 5 * MIB, 0);
  const cachalot_address foreign[] = {1,           512,         block + 1,
                                      block + 512, block + MIB, block - 512,
                                      INT64_MAX,   UINT64_MAX,  UINT64_C(1) << 47};
  size_t i;
  for (i = 0; i < sizeof foreign / sizeof *foreign; i++) {
    CHECK_FAILS(cachalot_free(with.allocator, foreign[i], &last_error),
                CACHALOT_ERROR_INVALID_ARGUMENT);
    CHECK_FAILS(cachalot_free_on_stream(with.allocator, foreign[i], 0, &last_error),
                CACHALOT_ERROR_INVALID_ARGUMENT);
  }
  CHECK_EQUAL(cachalot_memory_allocated(with.allocator, 0), 5 * MIB);
  free_block(with, block);
  close_fixture(with);
}

static void a_device_that_is_not_there_is_refused(void) {
  fixture with = open_fixture();
  cachalot_address address = 77;
  CHECK_FAILS(cachalot_allocate(with.allocator, 512, 2, 0, &address, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_allocate(with.allocator, 512, -1, 0, &address, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_empty_device_cache(with.allocator, 2, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(address, 77);
  close_fixture(with);
}

static void out_of_memory_comes_with_all_numbers(void) {
  fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 512, 0x10);
  cachalot_address address = 77;
  CHECK_OK(cachalot_set_memory_limit(with.allocator, 0, 512 * MIB, &last_error));
  CHECK_FAILS(cachalot_allocate(with.allocator, 2048 * MIB, 0, 0x20, &address, &last_error),
              CACHALOT_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(address, 77);
  CHECK_EQUAL(last_error.requested, 2048 * MIB);
  CHECK_EQUAL(last_error.segment_size, 2048 * MIB);
  CHECK_EQUAL(last_error.device_total, 1024 * MIB);
  CHECK_EQUAL(last_error.device_free, 1022 * MIB);
  CHECK_EQUAL(last_error.limit, 512 * MIB);
  CHECK_EQUAL(last_error.allocated, 512);
  CHECK_EQUAL(last_error.reserved, 2 * MIB);
  CHECK_EQUAL(last_error.private_pools_free, 0);
  CHECK_EQUAL(last_error.largest_free_block, 2 * MIB - 512);
  CHECK_EQUAL(last_error.stream, 0x20);
  CHECK_EQUAL(last_error.device, 0);
  CHECK(strstr(last_error.message, "CUDA out of memory. Tried to allocate 2.00 GiB.") ==
        last_error.message);
  CHECK_FAILS(cachalot_free(with.allocator, 512, &last_error), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(last_error.requested, 0);
  free_block(with, block);
  close_fixture(with);
}

static void two_to_the_60_fails_at_once(void) {
  fixture with = open_fixture();
  cachalot_address address = 77;
  CHECK_FAILS(cachalot_allocate(with.allocator, UINT64_C(1) << 60, 0, 0, &address, &last_error),
              CACHALOT_ERROR_OUT_OF_MEMORY);
  CHECK_FAILS(cachalot_allocate(with.allocator, UINT64_MAX, 0, 0, &address, &last_error),
              CACHALOT_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(address, 77);
  close_fixture(with);
}

static void a_success_leaves_the_error_record_alone(void) {
  fixture with = open_fixture();
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_address address = 0;
  strcpy(error.message, "as before");
  error.status = 77;
  CHECK_EQUAL(cachalot_allocate(with.allocator, 512, 0, 0, &address, &error), CACHALOT_OK);
  CHECK_EQUAL(cachalot_free(with.allocator, address, &error), CACHALOT_OK);
  CHECK_EQUAL(error.status, 77);
  CHECK_TEXT(error.message, "as before");
  close_fixture(with);
}

static void an_error_of_the_driver_has_its_code(void) {
  fixture with = open_fixture();
  cachalot_sim_failure failure = {.struct_size = sizeof(cachalot_sim_failure)};
  cachalot_address address = 77;
  failure.calls = CACHALOT_SIM_CALL_ALLOCATE;
  failure.code = 719;
  CHECK_OK(cachalot_sim_fail(with.driver, &failure, &last_error));
  CHECK_FAILS(cachalot_allocate(with.allocator, 512, 0, 0, &address, &last_error),
              CACHALOT_ERROR_DRIVER);
  CHECK_EQUAL(last_error.driver_code, 719);
  CHECK_EQUAL(address, 77);
  free_block(with, allocate_on(with, 512, 0));
  close_fixture(with);
}

static void a_recorded_stream_is_waited_for(void) {
  fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 512, 0x10);
  cachalot_address next;
  CHECK_OK(cachalot_sim_queue_work(with.driver, 0, 0x20, &last_error));
  CHECK_OK(cachalot_record_stream(with.allocator, block, 0x20, &last_error));
  free_block(with, block);
  next = allocate_on(with, 512, 0x10);
  CHECK(next != block);
  free_block(with, next);
  CHECK_OK(cachalot_sim_finish_stream(with.driver, 0, 0x20, &last_error));
  next = allocate_on(with, 512, 0x10);
  CHECK_EQUAL(next, block);
  free_block(with, next);
  close_fixture(with);
}

static void recording_its_own_stream_or_no_block_changes_nothing(void) {
  fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 512, 0x10);
  CHECK_OK(cachalot_record_stream(with.allocator, block, 0x10, &last_error));
  CHECK_OK(cachalot_record_stream_on_stream(with.allocator, block, 0x10, 0x10, &last_error));
  CHECK_OK(cachalot_record_stream(with.allocator, 0, 0x20, &last_error));
  CHECK_OK(cachalot_record_stream(with.allocator, 0x1234, 0x20, &last_error));
  free_block(with, block);
  CHECK_EQUAL(allocate_on(with, 512, 0x10), block);
  CHECK_OK(cachalot_free_on_stream(with.allocator, block, 0x10, &last_error));
  close_fixture(with);
}

static void a_block_says_what_it_is(void) {
  fixture with = open_fixture();
  const cachalot_address address = allocate_on(with, 1000, 0x10);
  cachalot_block block = {.struct_size = sizeof(cachalot_block)};
  CHECK_OK(cachalot_get_block(with.allocator, address, &block, &last_error));
  CHECK_EQUAL(block.struct_size, sizeof block);
  CHECK_EQUAL(block.address, address);
  CHECK_EQUAL(block.size, 1024);
  CHECK_EQUAL(block.requested, 1000);
  CHECK_EQUAL(block.stream, 0x10);
  CHECK(block.pool.first == 0 && block.pool.second == 0 && block.device == 0 &&
        block.uncached == 0);
  free_block(with, address);
  CHECK_FAILS(cachalot_get_block(with.allocator, address, &block, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  close_fixture(with);
}

static void the_segment_of_a_block_is_known(void) {
  fixture with = open_fixture();
  const cachalot_address first = allocate_on(with, 512, 0);
  const cachalot_address second = allocate_on(with, 512, 0);
  cachalot_address base = 0;
  uint64_t size = 0;
  CHECK_OK(cachalot_base_allocation(with.allocator, second, &base, &size, &last_error));
  CHECK_EQUAL(base, first);
  CHECK_EQUAL(size, 2 * MIB);
  CHECK_FAILS(cachalot_base_allocation(with.allocator, second + 1, &base, &size, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  free_block(with, first);
  free_block(with, second);
  close_fixture(with);
}

static void expandable_memory_has_no_base_to_share(void) {
  cachalot_allocator_options options = {.config = "expandable_segments:True"};
  fixture with = open_with(options);
  const cachalot_address block = allocate_on(with, 512, 0);
  cachalot_address base = 0;
  uint64_t size = 0;
  CHECK_FAILS(cachalot_base_allocation(with.allocator, block, &base, &size, &last_error),
              CACHALOT_ERROR_INVALID_STATE);
  free_block(with, block);
  close_fixture(with);
}

static void a_request_can_name_its_address(void) {
  fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, MIB, 0);
  cachalot_request request = {.struct_size = sizeof(cachalot_request), .size = 512};
  cachalot_address address = 0;
  free_block(with, block);
  request.at = block + 4096;
  CHECK_OK(cachalot_allocate_with(with.allocator, &request, &address, &last_error));
  CHECK_EQUAL(address, block + 4096);
  request.at = block + 5000;
  CHECK_FAILS(cachalot_allocate_with(with.allocator, &request, &address, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  free_block(with, address);
  close_fixture(with);
}

static void the_older_release_knows_no_requests_at_an_address(void) {
  fixture with = open_old_fixture();
  cachalot_request request = {.struct_size = sizeof(cachalot_request), .size = 512};
  cachalot_address address = 0;
  request.at = FIRST_ADDRESS;
  CHECK_FAILS(cachalot_allocate_with(with.allocator, &request, &address, &last_error),
              CACHALOT_ERROR_NOT_SUPPORTED);
  close_fixture(with);
}

static void a_request_is_checked(void) {
  fixture with = open_fixture();
  cachalot_request request = {.struct_size = sizeof(cachalot_request), .size = 512};
  cachalot_address address = 77;
  request.has_current_stream = 2;
  CHECK_FAILS_WITH(cachalot_allocate_with(with.allocator, &request, &address, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "has_current_stream is 2: expected 0 to 1");
  request.has_current_stream = 1;
  request.struct_size = 24;
  CHECK_FAILS(cachalot_allocate_with(with.allocator, &request, &address, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(address, 77);
  request.struct_size = sizeof request;
  CHECK_OK(cachalot_allocate_with(with.allocator, &request, &address, &last_error));
  free_block(with, address);
  close_fixture(with);
}

int main(void) {
  RUN(a_block_is_handed_out_and_given_back);
  RUN(another_stream_gets_other_memory);
  RUN(no_bytes_have_no_address);
  RUN(a_double_free_is_refused);
  RUN(a_foreign_address_is_refused);
  RUN(a_device_that_is_not_there_is_refused);
  RUN(out_of_memory_comes_with_all_numbers);
  RUN(two_to_the_60_fails_at_once);
  RUN(a_success_leaves_the_error_record_alone);
  RUN(an_error_of_the_driver_has_its_code);
  RUN(a_recorded_stream_is_waited_for);
  RUN(recording_its_own_stream_or_no_block_changes_nothing);
  RUN(a_block_says_what_it_is);
  RUN(the_segment_of_a_block_is_known);
  RUN(expandable_memory_has_no_base_to_share);
  RUN(a_request_can_name_its_address);
  RUN(the_older_release_knows_no_requests_at_an_address);
  RUN(a_request_is_checked);
  return report();
}
