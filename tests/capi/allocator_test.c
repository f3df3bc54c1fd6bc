/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How an allocator is made and ended; what creation refuses. */
#include <stddef.h>

#include "check.h"

static void an_allocator_is_made_and_ended(void) {
  fixture with = open_fixture();
  CHECK(with.allocator != NULL);
  CHECK(cachalot_allocator_driver(with.allocator) == with.driver);
  CHECK_EQUAL(cachalot_allocator_release(with.allocator), CACHALOT_RELEASE_2_15);
  close_fixture(with);
}

static void a_null_ends_as_nothing(void) {
  CHECK_OK(cachalot_allocator_destroy(NULL, &last_error));
  CHECK_OK(cachalot_allocator_destroy_all(NULL, NULL));
  CHECK(cachalot_allocator_driver(NULL) == NULL);
  CHECK_EQUAL(cachalot_allocator_release(NULL), 0);
  CHECK_EQUAL(cachalot_is_caching_enabled(NULL), 0);
}

static void an_allocator_keeps_its_driver_alive(void) {
  fixture with = open_fixture();
  cachalot_address address = 0;
  cachalot_driver_destroy(with.driver);
  address = allocate_on(with, 512, 0);
  CHECK_TEXT(cachalot_driver_name(cachalot_allocator_driver(with.allocator)), "sim");
  free_block(with, address);
  CHECK_OK(cachalot_allocator_destroy(with.allocator, &last_error));
}

static void live_blocks_keep_an_allocator_from_ending(void) {
  fixture with = open_fixture();
  const cachalot_address first = allocate_on(with, 512, 0);
  const cachalot_address second = allocate_on(with, 512, 0x20);
  const cachalot_address third = allocate_on(with, 30 * MIB, 0);
  CHECK_FAILS_WITH(cachalot_allocator_destroy(with.allocator, &last_error),
                   CACHALOT_ERROR_INVALID_STATE, "3 blocks are still live");
  free_block(with, third);
  free_block(with, second);
  CHECK_FAILS_WITH(cachalot_allocator_destroy(with.allocator, &last_error),
                   CACHALOT_ERROR_INVALID_STATE, "1 block is still live");
  free_block(with, first);
  close_fixture(with);
}

/* The number of bytes that the simulated device has left. */
static uint64_t free_bytes(cachalot_driver* driver) {
  cachalot_allocator_options options = {.struct_size = sizeof(cachalot_allocator_options)};
  cachalot_device_totals totals = {.struct_size = sizeof(cachalot_device_totals)};
  cachalot_allocator* asking = NULL;
  options.driver = driver;
  CHECK_OK(cachalot_allocator_create(&options, &asking, &last_error));
  CHECK_OK(cachalot_get_device_totals(asking, 0, &totals, &last_error));
  CHECK_OK(cachalot_allocator_destroy(asking, &last_error));
  return totals.total - totals.used;
}

static void destroy_all_frees_live_blocks_and_gives_all_memory_back(void) {
  fixture with = open_fixture();
  const cachalot_address used = allocate_on(with, 512, 0);
  allocate_on(with, 30 * MIB, 0x20);
  CHECK_OK(cachalot_record_stream(with.allocator, used, 0x30, &last_error));
  CHECK(free_bytes(with.driver) < 1024 * MIB);
  CHECK_OK(cachalot_allocator_destroy_all(with.allocator, &last_error));
  CHECK_EQUAL(free_bytes(with.driver), 1024 * MIB);
  cachalot_driver_destroy(with.driver);
}

static void destroy_gives_cached_memory_back(void) {
  fixture with = open_fixture();
  free_block(with, allocate_on(with, 512, 0));
  CHECK(free_bytes(with.driver) < 1024 * MIB);
  CHECK_OK(cachalot_allocator_destroy(with.allocator, &last_error));
  CHECK_EQUAL(free_bytes(with.driver), 1024 * MIB);
  cachalot_driver_destroy(with.driver);
}

static void two_allocators_know_nothing_of_each_other(void) {
  fixture with = open_fixture();
  cachalot_allocator_options options = {.struct_size = sizeof(cachalot_allocator_options)};
  fixture other = {NULL, NULL};
  cachalot_address address = 0;
  options.driver = with.driver;
  options.config = "";
  CHECK_OK(cachalot_allocator_create(&options, &other.allocator, &last_error));
  address = allocate_on(with, 512, 0);
  CHECK_FAILS(cachalot_free(other.allocator, address, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_memory_allocated(other.allocator, 0), 0);
  CHECK_OK(cachalot_allocator_destroy(other.allocator, &last_error));
  free_block(with, address);
  close_fixture(with);
}

/* Creation with one field wrong fails, says what, and writes nothing. */
static void refuse(cachalot_allocator_options options, cachalot_status status, const char* text) {
  cachalot_driver* const driver = open_sim();
  cachalot_allocator* allocator = (cachalot_allocator*)driver;
  if (options.struct_size == 0) options.struct_size = sizeof options;
  options.driver = driver;
  if (options.config == NULL) options.config = "";
  CHECK_FAILS_WITH(cachalot_allocator_create(&options, &allocator, &last_error), status, text);
  CHECK(allocator == (cachalot_allocator*)driver);
  CHECK(cachalot_allocator_create(&options, &allocator, NULL) == status);
  cachalot_driver_destroy(driver);
}

static void numbers_that_mean_nothing_are_refused_by_name(void) {
  const cachalot_allocator_options none = {0};
  cachalot_allocator_options options = none;
  options.release = 210;
  refuse(options, CACHALOT_ERROR_INVALID_ARGUMENT, "release is 210: expected 0, 211 or 215");
  options = none;
  options.context_source = 3;
  refuse(options, CACHALOT_ERROR_INVALID_ARGUMENT, "context_source is 3: expected 0 to 2");
  options = none;
  options.mend = 0x104;
  refuse(options, CACHALOT_ERROR_INVALID_ARGUMENT, "mend is 0x104: only 0xff is known");
  options = none;
  options.no_caching = 2;
  refuse(options, CACHALOT_ERROR_INVALID_ARGUMENT, "no_caching is 2: expected -1 to 1");
  options = none;
  options.shareable_pages = -2;
  refuse(options, CACHALOT_ERROR_INVALID_ARGUMENT, "shareable_pages is -2: expected -1 to 1");
  options = none;
  options.check_every_call = -1;
  refuse(options, CACHALOT_ERROR_INVALID_ARGUMENT, "check_every_call is -1: expected 0 to 1");
  options = none;
  options.track_labels = 9;
  refuse(options, CACHALOT_ERROR_INVALID_ARGUMENT, "track_labels is 9: expected 0 to 1");
}

static void options_shorter_than_those_of_the_first_version_are_refused(void) {
  cachalot_allocator_options options = {.struct_size = 16};
  char text[100];
  snprintf(text, sizeof text, "options->struct_size is 16, which is less than %d",
           (int)offsetof(cachalot_allocator_options, debug));
  refuse(options, CACHALOT_ERROR_INVALID_ARGUMENT, text);
}

static void options_of_a_newer_caller_are_read_as_far_as_they_are_known(void) {
  struct {
    cachalot_allocator_options known;
    uint64_t unknown[4];
  } newer = {{0}, {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
  fixture with = {NULL, NULL};
  with.driver = open_sim();
  newer.known.struct_size = sizeof newer;
  newer.known.driver = with.driver;
  newer.known.config = "max_split_size_mb:64";
  CHECK_OK(cachalot_allocator_create(&newer.known, &with.allocator, &last_error));
  close_fixture(with);
}

static void a_bad_option_string_is_refused(void) {
  cachalot_allocator_options options = {.config = "no_such_option:1"};
  cachalot_driver* const driver = open_sim();
  cachalot_allocator* allocator = NULL;
  options.struct_size = sizeof options;
  options.driver = driver;
  CHECK_FAILS(cachalot_allocator_create(&options, &allocator, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK(strstr(last_error.message, "no_such_option") != NULL);
  CHECK(allocator == NULL);
  cachalot_driver_destroy(driver);
}

static void check_every_call_audits_as_it_goes(void) {
  cachalot_allocator_options options = {.check_every_call = 1, .mend = 0xff};
  fixture with = open_with(options);
  const cachalot_address first = allocate_on(with, 512, 0);
  const cachalot_address second = allocate_on(with, 3 * MIB, 0x10);
  free_block(with, first);
  free_block(with, second);
  CHECK_OK(cachalot_empty_cache(with.allocator, &last_error));
  close_fixture(with);
}

int main(void) {
  RUN(an_allocator_is_made_and_ended);
  RUN(a_null_ends_as_nothing);
  RUN(an_allocator_keeps_its_driver_alive);
  RUN(live_blocks_keep_an_allocator_from_ending);
  RUN(destroy_all_frees_live_blocks_and_gives_all_memory_back);
  RUN(destroy_gives_cached_memory_back);
  RUN(two_allocators_know_nothing_of_each_other);
  RUN(numbers_that_mean_nothing_are_refused_by_name);
  RUN(options_shorter_than_those_of_the_first_version_are_refused);
  RUN(options_of_a_newer_caller_are_read_as_far_as_they_are_known);
  RUN(a_bad_option_string_is_refused);
  RUN(check_every_call_audits_as_it_goes);
  return report();
}
