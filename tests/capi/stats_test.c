/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Statistics, their names, the summary, and the rows by pool and by label. */
#include <stdlib.h>

#include "check.h"

static cachalot_stats stats_of(fixture with) {
  cachalot_stats stats = {.struct_size = sizeof(cachalot_stats)};
  CHECK_OK(cachalot_get_stats(with.allocator, 0, &stats, &last_error));
  return stats;
}

static void an_allocation_is_counted(void) {
  fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 1000, 0);
  const cachalot_stats stats = stats_of(with);
  CHECK_EQUAL(stats.struct_size, sizeof stats);
  CHECK_EQUAL(stats.allocation.all.current, 1);
  CHECK_EQUAL(stats.allocation.small_pool.current, 1);
  CHECK_EQUAL(stats.allocation.large_pool.current, 0);
  CHECK_EQUAL(stats.requested_bytes.all.current, 1000);
  CHECK_EQUAL(stats.allocated_bytes.all.current, 1024);
  CHECK_EQUAL(stats.reserved_bytes.all.current, 2 * MIB);
  CHECK_EQUAL(stats.inactive_split_bytes.all.current, 2 * MIB - 1024);
  CHECK_EQUAL(stats.num_device_alloc, 1);
  CHECK_EQUAL(stats.max_split_size, -1);
  free_block(with, block);
  close_fixture(with);
}

static void resets_leave_the_current_values(void) {
  fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 512, 0);
  free_block(with, allocate_on(with, 5 * MIB, 0));
  CHECK_OK(cachalot_reset_peak_stats(with.allocator, 0, &last_error));
  CHECK_EQUAL(stats_of(with).allocated_bytes.all.peak, 512);
  CHECK_EQUAL(stats_of(with).allocation.all.allocated, 2);
  CHECK_OK(cachalot_reset_accumulated_stats(with.allocator, 0, &last_error));
  CHECK_EQUAL(stats_of(with).allocation.all.allocated, 0);
  CHECK_EQUAL(stats_of(with).num_device_alloc, 0);
  CHECK_EQUAL(stats_of(with).allocation.all.current, 1);
  free_block(with, block);
  close_fixture(with);
}

static void the_common_numbers_need_one_call_each(void) {
  fixture with = open_fixture();
  const cachalot_address kept = allocate_on(with, 512, 0);
  free_block(with, allocate_on(with, 5 * MIB, 0));
  CHECK_EQUAL(cachalot_memory_allocated(with.allocator, 0), 512);
  CHECK_EQUAL(cachalot_max_memory_allocated(with.allocator, 0), 512 + 5 * MIB);
  CHECK_EQUAL(cachalot_memory_reserved(with.allocator, 0), 22 * MIB);
  CHECK_EQUAL(cachalot_max_memory_reserved(with.allocator, 0), 22 * MIB);
  CHECK_EQUAL(cachalot_memory_active(with.allocator, 0), 512);
  CHECK_EQUAL(cachalot_max_memory_active(with.allocator, 0), 512 + 5 * MIB);
  CHECK_EQUAL(cachalot_memory_allocated(with.allocator, 1), 0);
  free_block(with, kept);
  close_fixture(with);
}

static void the_common_numbers_are_0_where_there_is_nothing_to_ask(void) {
  fixture with = open_fixture();
  CHECK_EQUAL(cachalot_memory_allocated(NULL, 0), 0);
  CHECK_EQUAL(cachalot_max_memory_allocated(with.allocator, 2), 0);
  CHECK_EQUAL(cachalot_memory_reserved(with.allocator, -1), 0);
  CHECK_EQUAL(cachalot_max_memory_reserved(NULL, 0), 0);
  CHECK_EQUAL(cachalot_memory_active(NULL, 0), 0);
  CHECK_EQUAL(cachalot_max_memory_active(NULL, 0), 0);
  close_fixture(with);
}

static size_t count_rows(const cachalot_stats* stats, int32_t release) {
  size_t count = 0;
  const char* name = NULL;
  int64_t value = 0;
  while (cachalot_stats_at(stats, release, count, &name, &value) == CACHALOT_OK) count++;
  return count;
}

static int64_t value_of(const cachalot_stats* stats, const char* wanted) {
  size_t i = 0;
  const char* name = "";
  int64_t value = 0;
  for (; cachalot_stats_at(stats, CACHALOT_RELEASE_2_15, i, &name, &value) == CACHALOT_OK; i++)
    if (strcmp(name, wanted) == 0) return value;
  CHECK_TEXT("no such row", wanted);
  return -1;
}

static void statistics_have_the_names_of_the_reference(void) {
  fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 1000, 0);
  const cachalot_stats stats = stats_of(with);
  CHECK_EQUAL(count_rows(&stats, CACHALOT_RELEASE_2_11), 122);
  CHECK_EQUAL(count_rows(&stats, CACHALOT_RELEASE_2_15), 123);
  CHECK_EQUAL(value_of(&stats, "allocated_bytes.all.current"), 1024);
  CHECK_EQUAL(value_of(&stats, "requested_bytes.small_pool.peak"), 1000);
  CHECK_EQUAL(value_of(&stats, "num_device_alloc"), 1);
  CHECK_EQUAL(value_of(&stats, "max_split_size"), -1);
  free_block(with, block);
  close_fixture(with);
}

static void a_row_of_no_release_or_no_place_is_refused(void) {
  const cachalot_stats stats = {.struct_size = sizeof(cachalot_stats)};
  const char* name = "kept";
  int64_t value = 7;
  CHECK_EQUAL(cachalot_stats_at(&stats, 212, 0, &name, &value), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_stats_at(&stats, CACHALOT_RELEASE_2_15, 123, &name, &value),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_stats_at(&stats, CACHALOT_RELEASE_2_15, 0, NULL, &value),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_stats_at(&stats, CACHALOT_RELEASE_2_15, 0, &name, NULL),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_stats_at(NULL, CACHALOT_RELEASE_2_15, 0, &name, &value),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_TEXT(name, "kept");
  CHECK_EQUAL(value, 7);
}

static void the_summary_is_written_like_snprintf(void) {
  fixture with = open_fixture();
  char small[8] = "";
  char* whole;
  size_t length = 0;
  size_t again = 0;
  CHECK_OK(cachalot_memory_summary(with.allocator, 0, 1, NULL, 0, &length, &last_error));
  CHECK(length > 100);
  whole = malloc(length + 1);
  CHECK_OK(cachalot_memory_summary(with.allocator, 0, 1, whole, length + 1, &again, &last_error));
  CHECK_EQUAL(strlen(whole), length);
  CHECK_EQUAL(again, length);
  CHECK_OK(cachalot_memory_summary(with.allocator, 0, 1, small, sizeof small, &again, &last_error));
  CHECK(strlen(small) == 7 && strncmp(small, whole, 7) == 0);
  CHECK_EQUAL(again, length);
  CHECK_OK(cachalot_memory_summary(with.allocator, 0, 0, NULL, 0, &again, &last_error));
  CHECK(again > length);
  free(whole);
  CHECK_FAILS_WITH(cachalot_memory_summary(with.allocator, 0, 2, NULL, 0, &length, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "abbreviated is 2: expected 0 to 1");
  CHECK_FAILS(cachalot_memory_summary(with.allocator, 0, 0, NULL, 5, &length, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  close_fixture(with);
}

static void a_pool_has_a_row_of_its_own(void) {
  fixture with = open_fixture();
  const cachalot_pool_id id = {0, 5};
  cachalot_pool_stats row = {.struct_size = sizeof(cachalot_pool_stats)};
  size_t count = 9;
  CHECK_OK(cachalot_pool_stats_count(with.allocator, 0, &count, &last_error));
  CHECK_EQUAL(count, 0);
  CHECK_OK(cachalot_pool_begin(with.allocator, 0, id, NULL, &last_error));
  free_block(with, allocate_on(with, 512, 0));
  CHECK_OK(cachalot_pool_end(with.allocator, 0, id, &last_error));
  CHECK_OK(cachalot_pool_stats_count(with.allocator, 0, &count, &last_error));
  CHECK_EQUAL(count, 1);
  CHECK_OK(cachalot_pool_stats_at(with.allocator, 0, 0, &row, &last_error));
  CHECK_EQUAL(row.pool.second, 5);
  CHECK_EQUAL(row.reserved_bytes.small_pool.current, 2 * MIB);
  CHECK_FAILS_WITH(cachalot_pool_stats_at(with.allocator, 0, 1, &row, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "there is no pool 1: there are 1");
  CHECK_OK(cachalot_pool_release(with.allocator, 0, id, &last_error));
  close_fixture(with);
}

static void labels_have_rows_in_the_order_of_their_first_use(void) {
  cachalot_allocator_options options = {.track_labels = 1};
  fixture with = open_with(options);
  cachalot_label_stats row = {.struct_size = sizeof(cachalot_label_stats)};
  cachalot_address first, second;
  size_t count = 0;
  CHECK_OK(cachalot_label_push("model", &last_error));
  first = allocate_on(with, 1000, 0);
  CHECK_OK(cachalot_label_push("cache", &last_error));
  second = allocate_on(with, 2000, 0);
  CHECK_OK(cachalot_label_pop(&last_error));
  CHECK_OK(cachalot_label_pop(&last_error));
  free_block(with, second);

  CHECK_OK(cachalot_label_stats_count(with.allocator, 0, &count, &last_error));
  CHECK_EQUAL(count, 2);
  CHECK_OK(cachalot_label_stats_at(with.allocator, 0, 0, &row, &last_error));
  CHECK_TEXT(row.label, "model");
  CHECK_EQUAL(row.allocation.current, 1);
  CHECK_EQUAL(row.allocated_bytes.current, 1024);
  CHECK_OK(cachalot_label_stats_at(with.allocator, 0, 1, &row, &last_error));
  CHECK_TEXT(row.label, "model/cache");
  CHECK_EQUAL(row.allocation.current, 0);
  CHECK_EQUAL(row.allocated_bytes.peak, 2048);
  CHECK_FAILS_WITH(cachalot_label_stats_at(with.allocator, 0, 2, &row, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "there is no label 2: there are 2");
  CHECK_FAILS(cachalot_label_stats_at(with.allocator, 5, 0, &row, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  free_block(with, first);
  close_fixture(with);
}

static void a_device_that_is_not_there_is_refused(void) {
  fixture with = open_fixture();
  cachalot_stats stats = {.struct_size = sizeof(cachalot_stats)};
  CHECK_FAILS(cachalot_get_stats(with.allocator, 2, &stats, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_get_stats(with.allocator, -1, &stats, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_reset_peak_stats(with.allocator, 2, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_reset_accumulated_stats(with.allocator, 2, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  close_fixture(with);
}

int main(void) {
  RUN(an_allocation_is_counted);
  RUN(resets_leave_the_current_values);
  RUN(the_common_numbers_need_one_call_each);
  RUN(the_common_numbers_are_0_where_there_is_nothing_to_ask);
  RUN(statistics_have_the_names_of_the_reference);
  RUN(a_row_of_no_release_or_no_place_is_refused);
  RUN(the_summary_is_written_like_snprintf);
  RUN(a_pool_has_a_row_of_its_own);
  RUN(labels_have_rows_in_the_order_of_their_first_use);
  RUN(a_device_that_is_not_there_is_refused);
  return report();
}
