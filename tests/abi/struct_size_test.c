/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Callers whose structs are shorter or longer than the library's. Built twice: with the headers of
 * version 0.1 in tests/abi/older, as yesterday's program, and with today's.
 *
 * Each struct that the library fills stands before bytes that must stay what they are: those behind
 * the struct_size that was given, and, of a caller from the future, those behind what today's
 * library knows.
 */
#include <stddef.h>
#include <stdlib.h>

#include "../capi/check.h"

#define LONGER 200 /* bytes that tomorrow's struct has more */
#define BEHIND 256

static int are_untouched(const unsigned char* bytes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (bytes[i] != 0xA5) return 0;
  return 1;
}

/* The part behind the struct that the library must leave alone. */
static int is_rest_untouched(const unsigned char* behind, size_t longer) {
#ifdef CACHALOT_OLDER_HEADERS
  return are_untouched(behind + longer,
                       BEHIND - longer); /* today's may be longer than yesterday's */
#else
  (void)longer;
  return are_untouched(behind, BEHIND);
#endif
}

/* CALL fills *out, once as this header's struct and once as a longer one. */
#define FILLS(type, call)                                                                        \
  do {                                                                                           \
    for (size_t longer = 0; longer <= LONGER; longer += LONGER) {                                \
      struct {                                                                                   \
        type value;                                                                              \
        unsigned char behind[BEHIND];                                                            \
      } guarded;                                                                                 \
      type* const out = &guarded.value;                                                          \
      memset(&guarded, 0xA5, sizeof guarded);                                                    \
      out->struct_size = sizeof(type) + longer;                                                  \
      CHECK_OK(call);                                                                            \
      check_equal((int64_t)out->struct_size, (int64_t)(sizeof(type) + longer), #call, __LINE__); \
      check_true(is_rest_untouched(guarded.behind, longer), #call " writes no more", __LINE__);  \
    }                                                                                            \
  } while (0)

/* CALL reads *in, which is zero but for what `fill` sets, as this header's struct and as a longer
 * one whose further fields are not zero. */
#define READS(type, fill, call)                                                             \
  do {                                                                                      \
    for (size_t longer = 0; longer <= LONGER; longer += LONGER) {                           \
      struct {                                                                              \
        type value;                                                                         \
        unsigned char behind[BEHIND];                                                       \
      } guarded;                                                                            \
      type* const in = &guarded.value;                                                      \
      memset(&guarded, 0xA5, sizeof guarded);                                               \
      memset(in, 0, sizeof *in);                                                            \
      in->struct_size = sizeof(type) + READ_LONGER(longer);                                 \
      fill;                                                                                 \
      CHECK_OK(call);                                                                       \
      check_true(are_untouched(guarded.behind, BEHIND), #call " writes nothing", __LINE__); \
    }                                                                                       \
  } while (0)
/* What yesterday's program has behind its struct is no field of today's. */
#ifdef CACHALOT_OLDER_HEADERS
#define READ_LONGER(longer) 0
#else
#define READ_LONGER(longer) (longer)
#endif

static fixture with;

static void what_is_asked_is_filled_as_far_as_the_caller_knows(void) {
  const cachalot_address block = allocate_on(with, 4096, 0);
  cachalot_snapshot* snapshot = NULL;
  FILLS(cachalot_status_description, cachalot_status_at(0, out));
  FILLS(cachalot_block, cachalot_get_block(with.allocator, block, out, &last_error));
  FILLS(cachalot_device_totals, cachalot_get_device_totals(with.allocator, 0, out, &last_error));
  FILLS(cachalot_settings, cachalot_get_settings(with.allocator, out, &last_error));
  FILLS(cachalot_stats, cachalot_get_stats(with.allocator, 0, out, &last_error));
  FILLS(cachalot_reserve, cachalot_get_reserve(with.allocator, 0, "class", out, &last_error));
  FILLS(cachalot_label_stats, cachalot_label_stats_at(with.allocator, 0, 0, out, &last_error));
  FILLS(cachalot_pool_stats, cachalot_pool_stats_at(with.allocator, 0, 0, out, &last_error));
  CHECK_OK(cachalot_snapshot_take(with.allocator, NULL, &snapshot, &last_error));
  FILLS(cachalot_segment_row, cachalot_snapshot_segment(snapshot, 0, out));
  FILLS(cachalot_block_row, cachalot_snapshot_block(snapshot, 0, out));
  FILLS(cachalot_trace_entry, cachalot_snapshot_entry(snapshot, 0, 0, out));
  FILLS(cachalot_settings, cachalot_snapshot_settings(snapshot, out));
  cachalot_snapshot_destroy(snapshot);
  free_block(with, block);
}

typedef struct text {
  char bytes[4096];
  size_t size;
  size_t read;
} text;

static int32_t append(void* user_data, const void* bytes, size_t size) {
  text* const to = user_data;
  if (size > sizeof to->bytes - to->size) return 1;
  memcpy(to->bytes + to->size, bytes, size);
  to->size += size;
  return 0;
}

static int64_t take(void* user_data, void* buffer, size_t capacity) {
  text* const from = user_data;
  const size_t left = from->size - from->read;
  const size_t count = left < capacity ? left : capacity;
  memcpy(buffer, from->bytes + from->read, count);
  from->read += count;
  return (int64_t)count;
}

static void traces_and_replays_are_told_as_far_as_the_caller_knows(void) {
  cachalot_snapshot* snapshot = NULL;
  cachalot_trace* trace = NULL;
  cachalot_replay* replay = NULL;
  cachalot_snapshot_options options = {.struct_size = sizeof(cachalot_snapshot_options)};
  static text written;
  free_block(with, allocate_on(with, 4096, 0));
  CHECK_OK(cachalot_snapshot_take(with.allocator, &options, &snapshot, &last_error));
  CHECK_OK(cachalot_trace_write(snapshot, NULL, "small", append, &written, &last_error));
  CHECK_OK(cachalot_trace_read(take, &written, &trace, &last_error));
  FILLS(cachalot_trace_info, cachalot_trace_get_info(trace, out));
  FILLS(cachalot_trace_event, cachalot_trace_get_event(trace, 0, out));
  READS(cachalot_replay_options, in->config = "",
        (cachalot_replay_destroy(replay), cachalot_replay_run(trace, in, &replay, &last_error)));
  FILLS(cachalot_replay_result, cachalot_replay_get_result(replay, out));
  cachalot_replay_destroy(replay);
  cachalot_trace_destroy(trace);
  cachalot_snapshot_destroy(snapshot);
}

static void options_are_read_as_far_as_the_library_knows(void) {
  cachalot_address block = 0;
  cachalot_allocator* other = NULL;
  cachalot_driver* driver = NULL;
  cachalot_snapshot* snapshot = NULL;
  cachalot_settings settings;
  cachalot_pool_id id = {0, 7};
  READS(cachalot_sim_options, in->device_count = 1,
        (cachalot_driver_destroy(driver), cachalot_sim_create(in, &driver, &last_error)));
  READS(cachalot_allocator_options, (in->driver = driver, in->config = ""),
        (CHECK_OK(cachalot_allocator_destroy(other, &last_error)),
         cachalot_allocator_create(in, &other, &last_error)));
  CHECK_OK(cachalot_allocator_destroy(other, &last_error));
  READS(cachalot_sim_failure, (in->calls = CACHALOT_SIM_CALL_FABRIC_STATE, in->code = 1),
        cachalot_sim_fail(driver, in, &last_error));
  READS(cachalot_request, (in->size = 512, free_block(with, block)),
        cachalot_allocate_with(with.allocator, in, &block, &last_error));
  free_block(with, block);
  settings.struct_size = sizeof settings;
  CHECK_OK(cachalot_get_settings(with.allocator, &settings, &last_error));
  READS(cachalot_settings,
        (memcpy(in, &settings, sizeof settings),
         in->struct_size = sizeof settings + READ_LONGER(longer)),
        cachalot_set_settings(with.allocator, in, &last_error));
  READS(cachalot_history_options, (in->enabled = 1, in->max_entries = 10),
        cachalot_record_history(with.allocator, in, &last_error));
  READS(cachalot_snapshot_options, cachalot_snapshot_destroy(snapshot),
        cachalot_snapshot_take(with.allocator, in, &snapshot, &last_error));
  cachalot_snapshot_destroy(snapshot);
  READS(cachalot_pool_options, in->flags = 0,
        cachalot_pool_create(with.allocator, 0, id, in, &last_error));
  READS(cachalot_pool_route, (in->kind = CACHALOT_ROUTE_ALL, id.second++),
        cachalot_pool_begin(with.allocator, 0, id, in, &last_error));
  CHECK_OK(cachalot_pool_end(with.allocator, 0, id, &last_error));
  id.second--;
  CHECK_OK(cachalot_pool_end(with.allocator, 0, id, &last_error));
  cachalot_driver_destroy(driver);
}

#ifndef CACHALOT_OLDER_HEADERS
static void a_policy_is_told_as_far_as_the_caller_knows(void) {
  FILLS(cachalot_policy, cachalot_policy_read("serving,streams=announced", out, &last_error));
  FILLS(cachalot_policy, cachalot_get_policy(with.allocator, out, &last_error));
  FILLS(cachalot_policy_stats, cachalot_get_policy_stats(with.allocator, 0, out, &last_error));
}

static void recorders_know_as_much_as_the_caller(void) {
  static text written;
  uint64_t id = 0;
  READS(cachalot_recorder_options,
        (in->write = append, in->write_user_data = &written, written.size = 0),
        cachalot_recorder_start(with.allocator, in, &id, &last_error));
  FILLS(cachalot_recorder_stats, cachalot_recorder_get_stats(with.allocator, id, out, &last_error));
  CHECK_OK(cachalot_recorder_stop(with.allocator, id, &last_error));
  CHECK_OK(cachalot_recorder_stop(with.allocator, id - 1, &last_error));
  READS(cachalot_oom_dump_options, in->folder = "/tmp",
        cachalot_set_oom_dump(with.allocator, in, &last_error));
  CHECK_OK(cachalot_set_oom_dump(with.allocator, NULL, &last_error));
}

/* What such a caller has behind its struct is no policy. */
static void options_from_before_the_policy_choose_pytorchs(void) {
  cachalot_allocator* allocator = NULL;
  cachalot_allocator_options options;
  cachalot_policy policy = {.struct_size = sizeof policy};
  memset(&options, 0, sizeof options);
  options.struct_size = offsetof(cachalot_allocator_options, policy);
  options.driver = with.driver;
  options.config = "";
  memset(&options.policy, 0xA5, sizeof options - options.struct_size);
  CHECK_OK(cachalot_allocator_create(&options, &allocator, &last_error));
  CHECK_OK(cachalot_get_policy(allocator, &policy, &last_error));
  CHECK_EQUAL(policy.policy, CACHALOT_POLICY_PYTORCH);
  CHECK_OK(cachalot_allocator_destroy(allocator, &last_error));
}
#endif

static void errors_are_written_as_far_as_the_caller_knows(void) {
  const size_t sizes[] = {sizeof(size_t), 16, sizeof(cachalot_error) - 100, sizeof(cachalot_error),
                          sizeof(cachalot_error) + LONGER};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    static unsigned char memory[sizeof(cachalot_error) + LONGER + BEHIND];
    cachalot_error* const error = (cachalot_error*)(void*)memory;
    memset(memory, 0xA5, sizeof memory);
    error->struct_size = sizes[i];
    CHECK_EQUAL(cachalot_free(with.allocator, 0x1234, error), CACHALOT_ERROR_INVALID_ARGUMENT);
    CHECK_EQUAL(error->struct_size, sizes[i]);
    CHECK(are_untouched(memory + sizes[i], sizeof memory - sizes[i]));
#ifndef CACHALOT_OLDER_HEADERS
    if (sizes[i] > sizeof(cachalot_error))
      CHECK(are_untouched(memory + sizeof(cachalot_error), sizes[i] - sizeof(cachalot_error)));
#endif
  }
}

int main(void) {
  cachalot_allocator_options options = {0};
  cachalot_history_options history = {.struct_size = sizeof(cachalot_history_options)};
  cachalot_pool_options pool = {.struct_size = sizeof(cachalot_pool_options)};
  cachalot_pool_route route = {.struct_size = sizeof(cachalot_pool_route)};
  const cachalot_pool_id id = {0, 1};
  options.release = CACHALOT_RELEASE_2_15;
  options.track_labels = 1;
  with = open_with(options);
  history.enabled = 1;
  history.max_entries = 100;
  route.kind = CACHALOT_ROUTE_ALL;
  CHECK_OK(cachalot_record_history(with.allocator, &history, &last_error));
  CHECK_OK(cachalot_pool_create(with.allocator, 0, id, &pool, &last_error));
  CHECK_OK(cachalot_label_push("label", &last_error));
  CHECK_OK(cachalot_pool_begin(with.allocator, 0, id, &route, &last_error));
  RUN(what_is_asked_is_filled_as_far_as_the_caller_knows);
  CHECK_OK(cachalot_pool_end(with.allocator, 0, id, &last_error));
  RUN(traces_and_replays_are_told_as_far_as_the_caller_knows);
  RUN(options_are_read_as_far_as_the_library_knows);
#ifndef CACHALOT_OLDER_HEADERS
  RUN(a_policy_is_told_as_far_as_the_caller_knows);
  RUN(options_from_before_the_policy_choose_pytorchs);
  RUN(recorders_know_as_much_as_the_caller);
#endif
  RUN(errors_are_written_as_far_as_the_caller_knows);
  CHECK_OK(cachalot_label_pop(&last_error));
  CHECK_OK(cachalot_allocator_destroy_all(with.allocator, &last_error));
  cachalot_driver_destroy(with.driver);
  return report();
}
