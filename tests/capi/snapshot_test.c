/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Snapshots: their rows, their limits, and that they outlive what they show. */
#include "check.h"

static cachalot_snapshot* take(fixture with) {
  cachalot_snapshot* snapshot = NULL;
  CHECK_OK(cachalot_snapshot_take(with.allocator, NULL, &snapshot, &last_error));
  return snapshot;
}

static void segments_have_their_blocks(void) {
  fixture with = open_fixture();
  const cachalot_address small = allocate_on(with, 1000, 0);
  const cachalot_address large = allocate_on(with, 30 * MIB, 0x10);
  cachalot_snapshot* const snapshot = take(with);
  cachalot_segment_row segment = {.struct_size = sizeof(cachalot_segment_row)};
  cachalot_block_row block = {.struct_size = sizeof(cachalot_block_row)};
  CHECK_EQUAL(cachalot_snapshot_segment_count(snapshot), 2);
  CHECK_EQUAL(cachalot_snapshot_block_count(snapshot), 3);

  CHECK_EQUAL(cachalot_snapshot_segment(snapshot, 0, &segment), CACHALOT_OK);
  CHECK_EQUAL(segment.address, small);
  CHECK_EQUAL(segment.total_size, 2 * MIB);
  CHECK_EQUAL(segment.allocated_size, 1024);
  CHECK_EQUAL(segment.active_size, 1024);
  CHECK_EQUAL(segment.requested_size, 1000);
  CHECK(segment.device == 0 && segment.is_large == 0 && segment.is_expandable == 0);
  CHECK(segment.first_block == 0 && segment.block_count == 2);
  CHECK_EQUAL(cachalot_snapshot_segment(snapshot, 1, &segment), CACHALOT_OK);
  CHECK(segment.address == large && segment.is_large == 1 && segment.stream == 0x10);
  CHECK(segment.first_block == 2 && segment.block_count == 1);

  CHECK_EQUAL(cachalot_snapshot_block(snapshot, 0, &block), CACHALOT_OK);
  CHECK(block.address == small && block.size == 1024 && block.requested_size == 1000);
  CHECK_EQUAL(block.state, CACHALOT_BLOCK_ALLOCATED);
  CHECK_EQUAL(cachalot_snapshot_block(snapshot, 1, &block), CACHALOT_OK);
  CHECK(block.address == small + 1024 && block.size == 2 * MIB - 1024);
  CHECK_EQUAL(block.state, CACHALOT_BLOCK_INACTIVE);

  cachalot_snapshot_destroy(snapshot);
  free_block(with, small);
  free_block(with, large);
  close_fixture(with);
}

static void a_block_that_waits_for_a_stream_is_pending(void) {
  fixture with = open_fixture();
  const cachalot_address address = allocate_on(with, 512, 0);
  cachalot_block_row block = {.struct_size = sizeof(cachalot_block_row)};
  cachalot_snapshot* snapshot;
  CHECK_OK(cachalot_sim_queue_work(with.driver, 0, 0x20, &last_error));
  CHECK_OK(cachalot_record_stream(with.allocator, address, 0x20, &last_error));
  free_block(with, address);
  snapshot = take(with);
  CHECK_EQUAL(cachalot_snapshot_block(snapshot, 0, &block), CACHALOT_OK);
  CHECK_EQUAL(block.state, CACHALOT_BLOCK_PENDING_FREE);
  cachalot_snapshot_destroy(snapshot);
  CHECK_OK(cachalot_sim_finish_device(with.driver, 0, &last_error));
  close_fixture(with);
}

static void a_snapshot_outlives_its_allocator(void) {
  cachalot_allocator_options options = {.config = "max_split_size_mb:128"};
  fixture with = open_with(options);
  const cachalot_history_options recording = {
      .struct_size = sizeof(cachalot_history_options), .enabled = 1, .max_entries = 10};
  cachalot_settings settings = {.struct_size = sizeof(cachalot_settings)};
  cachalot_trace_entry entry = {.struct_size = sizeof(cachalot_trace_entry)};
  cachalot_snapshot* snapshot;
  CHECK_OK(cachalot_record_history(with.allocator, &recording, &last_error));
  CHECK_OK(cachalot_set_metadata("step 5", &last_error));
  free_block(with, allocate_on(with, 1000, 0));
  CHECK_OK(cachalot_set_metadata("", &last_error));
  snapshot = take(with);
  close_fixture(with);

  CHECK_EQUAL(cachalot_snapshot_segment_count(snapshot), 1);
  CHECK_EQUAL(cachalot_snapshot_entry_count(snapshot, 0), 4);
  CHECK_EQUAL(cachalot_snapshot_entry(snapshot, 0, 1, &entry), CACHALOT_OK);
  CHECK_EQUAL(entry.action, CACHALOT_ACTION_ALLOC);
  CHECK_EQUAL(entry.size, 1000);
  CHECK_TEXT(entry.metadata, "step 5");
  CHECK_TEXT(entry.internal_metadata, "");
  CHECK(entry.time_us > 0);
  CHECK_EQUAL(cachalot_snapshot_settings(snapshot, &settings), CACHALOT_OK);
  CHECK_EQUAL(settings.max_split_size, 128 * MIB);
  CHECK_TEXT(cachalot_snapshot_config(snapshot), "max_split_size_mb:128");
  cachalot_snapshot_destroy(snapshot);
}

static void history_can_be_left_out(void) {
  fixture with = open_fixture();
  const cachalot_history_options recording = {
      .struct_size = sizeof(cachalot_history_options), .enabled = 1, .max_entries = 10};
  const cachalot_snapshot_options options = {.struct_size = sizeof(cachalot_snapshot_options),
                                             .without_history = 1};
  cachalot_snapshot* snapshot = NULL;
  CHECK_OK(cachalot_record_history(with.allocator, &recording, &last_error));
  free_block(with, allocate_on(with, 512, 0));
  CHECK_OK(cachalot_snapshot_take(with.allocator, &options, &snapshot, &last_error));
  CHECK_EQUAL(cachalot_snapshot_entry_count(snapshot, 0), 0);
  CHECK_EQUAL(cachalot_snapshot_segment_count(snapshot), 1);
  cachalot_snapshot_destroy(snapshot);
  close_fixture(with);
}

static void one_pool_can_be_shown_alone(void) {
  fixture with = open_fixture();
  const cachalot_pool_id id = {0, 3};
  cachalot_snapshot_options options = {.struct_size = sizeof(cachalot_snapshot_options)};
  cachalot_segment_row segment = {.struct_size = sizeof(cachalot_segment_row)};
  cachalot_snapshot* snapshot = NULL;
  free_block(with, allocate_on(with, 512, 0));
  CHECK_OK(cachalot_pool_begin(with.allocator, 0, id, NULL, &last_error));
  free_block(with, allocate_on(with, 512, 0));
  CHECK_OK(cachalot_pool_end(with.allocator, 0, id, &last_error));
  options.pool = id;
  CHECK_OK(cachalot_snapshot_take(with.allocator, &options, &snapshot, &last_error));
  CHECK_EQUAL(cachalot_snapshot_segment_count(snapshot), 1);
  CHECK_EQUAL(cachalot_snapshot_segment(snapshot, 0, &segment), CACHALOT_OK);
  CHECK(segment.pool.first == 0 && segment.pool.second == 3);
  cachalot_snapshot_destroy(snapshot);
  CHECK_OK(cachalot_pool_release(with.allocator, 0, id, &last_error));
  close_fixture(with);
}

static void past_the_last_row_there_is_nothing(void) {
  fixture with = open_fixture();
  cachalot_snapshot* snapshot;
  cachalot_segment_row segment = {.struct_size = sizeof(cachalot_segment_row), .device = 77};
  cachalot_block_row block = {.struct_size = sizeof(cachalot_block_row), .state = 77};
  cachalot_trace_entry entry = {.struct_size = sizeof(cachalot_trace_entry), .device = 77};
  free_block(with, allocate_on(with, 512, 0));
  snapshot = take(with);
  CHECK_EQUAL(cachalot_snapshot_segment(snapshot, 1, &segment), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_snapshot_block(snapshot, SIZE_MAX, &block), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_snapshot_entry(snapshot, 0, 0, &entry), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_snapshot_entry(snapshot, -1, 0, &entry), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_snapshot_entry(snapshot, 9, 0, &entry), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_snapshot_entry_count(snapshot, -1), 0);
  CHECK_EQUAL(cachalot_snapshot_entry_count(snapshot, 9), 0);
  CHECK(segment.device == 77 && block.state == 77 && entry.device == 77);
  cachalot_snapshot_destroy(snapshot);
  close_fixture(with);
}

static void options_are_checked(void) {
  fixture with = open_fixture();
  cachalot_snapshot_options options = {.struct_size = sizeof(cachalot_snapshot_options),
                                       .without_history = 2};
  cachalot_snapshot* snapshot = NULL;
  CHECK_FAILS_WITH(cachalot_snapshot_take(with.allocator, &options, &snapshot, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "without_history is 2: expected 0 to 1");
  options.without_history = 0;
  options.pool.first = options.pool.second = 1;
  CHECK_FAILS(cachalot_snapshot_take(with.allocator, &options, &snapshot, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK(snapshot == NULL);
  close_fixture(with);
}

static void a_null_is_an_empty_snapshot(void) {
  cachalot_segment_row segment = {.struct_size = sizeof(cachalot_segment_row)};
  cachalot_block_row block = {.struct_size = sizeof(cachalot_block_row)};
  cachalot_trace_entry entry = {.struct_size = sizeof(cachalot_trace_entry)};
  cachalot_settings settings = {.struct_size = sizeof(cachalot_settings)};
  CHECK_EQUAL(cachalot_snapshot_segment_count(NULL), 0);
  CHECK_EQUAL(cachalot_snapshot_block_count(NULL), 0);
  CHECK_EQUAL(cachalot_snapshot_entry_count(NULL, 0), 0);
  CHECK_TEXT(cachalot_snapshot_config(NULL), "");
  CHECK_EQUAL(cachalot_snapshot_segment(NULL, 0, &segment), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_snapshot_block(NULL, 0, &block), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_snapshot_entry(NULL, 0, 0, &entry), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_snapshot_settings(NULL, &settings), CACHALOT_ERROR_INVALID_ARGUMENT);
  cachalot_snapshot_destroy(NULL);
}

int main(void) {
  RUN(segments_have_their_blocks);
  RUN(a_block_that_waits_for_a_stream_is_pending);
  RUN(a_snapshot_outlives_its_allocator);
  RUN(history_can_be_left_out);
  RUN(one_pool_can_be_shown_alone);
  RUN(past_the_last_row_there_is_nothing);
  RUN(options_are_checked);
  RUN(a_null_is_an_empty_snapshot);
  return report();
}
