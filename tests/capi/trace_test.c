/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Traces and replays: a history is written, read back, looked at and replayed. */
#include <stdlib.h>

#include "check.h"

/* A file in memory; fails after so many calls. */
typedef struct memory_file {
  char text[1 << 16];
  size_t size;
  size_t at;
  int calls_until_failure;
} memory_file;

static int32_t write_file(void* user_data, const void* data, size_t size) {
  memory_file* file = user_data;
  if (file->calls_until_failure-- == 0) return 7;
  if (size > sizeof file->text - file->size) return 8;
  memcpy(file->text + file->size, data, size);
  file->size += size;
  return 0;
}

/* Three bytes at a time, so that every line comes in pieces. */
static int64_t read_file(void* user_data, void* buffer, size_t capacity) {
  memory_file* file = user_data;
  size_t count = file->size - file->at;
  if (file->calls_until_failure-- == 0) return -1;
  if (count > 3) count = 3;
  if (count > capacity) count = capacity;
  memcpy(buffer, file->text + file->at, count);
  file->at += count;
  return (int64_t)count;
}

static memory_file* file_of(const char* text) {
  memory_file* file = calloc(1, sizeof *file);
  file->size = strlen(text);
  file->calls_until_failure = -1;
  memcpy(file->text, text, file->size);
  return file;
}

static void append_text(memory_file* file, const char* text) {
  CHECK_EQUAL(write_file(file, text, strlen(text)), 0);
}

static cachalot_trace* trace_of(const char* text) {
  memory_file* file = file_of(text);
  cachalot_trace* trace = NULL;
  CHECK_OK(cachalot_trace_read(read_file, file, &trace, &last_error));
  free(file);
  return trace;
}

static const char* const kSmall =
    "# {\"workload\": \"small\", \"torch\": \"2.11.0\", \"device_total\": 1073741824, \"warm_up\": "
    "0,"
    " \"config\": {\"PYTORCH_CUDA_ALLOC_CONF\": \"max_split_size_mb:64\"},"
    " \"stats\": {\"num_ooms\": 0, \"segment.all.peak\": 1}}\n"
    "S,10000000,2097152,a0\n"
    "a,10000000,512,a0,0,,123,ff\n"
    "q,10000000,512,a0\n"
    "c,10000000,512,a0\n";

static void a_trace_tells_what_it_holds(void) {
  cachalot_trace* trace = trace_of(kSmall);
  cachalot_trace_info info = {.struct_size = sizeof info};
  cachalot_trace_event event = {.struct_size = sizeof event};
  const char* name = NULL;
  int64_t value = -1;
  CHECK_OK(cachalot_trace_get_info(trace, &info));
  CHECK_TEXT(info.workload, "small");
  CHECK_TEXT(info.torch, "2.11.0");
  CHECK_TEXT(info.config, "max_split_size_mb:64");
  CHECK_EQUAL(info.device_total, 1024 * MIB);
  CHECK_EQUAL(info.event_count, 4);
  CHECK_EQUAL(info.stat_count, 2);
  CHECK_EQUAL(info.release, CACHALOT_RELEASE_2_11);
  CHECK_EQUAL(info.device_count, 1);
  CHECK_EQUAL(info.format, 1);
  CHECK_TEXT(info.command, "");
  CHECK_OK(cachalot_trace_get_event(trace, 1, &event));
  CHECK_EQUAL(event.action, CACHALOT_ACTION_ALLOC);
  CHECK_EQUAL(event.address, 0x10000000);
  CHECK_EQUAL(event.size, 512);
  CHECK_EQUAL(event.stream, 0xa0);
  CHECK_EQUAL(event.time_us, 123);
  CHECK_EQUAL(event.context, 0xff);
  CHECK_EQUAL(cachalot_trace_get_event(trace, 4, &event), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_OK(cachalot_trace_get_stat(trace, 1, &name, &value));
  CHECK_TEXT(name, "segment.all.peak");
  CHECK_EQUAL(value, 1);
  CHECK_EQUAL(cachalot_trace_get_stat(trace, 2, &name, &value), CACHALOT_ERROR_INVALID_ARGUMENT);
  cachalot_trace_destroy(trace);
}

static void a_trace_of_format_2_tells_of_stacks(void) {
  cachalot_trace* trace = trace_of(
      "# {\"format\": 2}\n"
      "# module 400000 500000 1000 /usr/bin/server\n"
      "# stack ff 401234;7f001000\n"
      "# module 7f000000 7f100000 0 /usr/lib/later.so\n"
      "# stack fe 7f001000\n"
      "# stack ff 999\n"
      "a,200,512,0,0,,,ff\n");
  cachalot_trace_frame frame = {.struct_size = sizeof frame};
  CHECK_OK(cachalot_trace_get_frame(trace, 0xff, 0, &frame));
  CHECK_EQUAL(frame.address, 0x401234);
  CHECK_EQUAL(frame.file_offset, 0x2234);
  CHECK_TEXT(frame.path, "/usr/bin/server");
  CHECK_OK(cachalot_trace_get_frame(trace, 0xff, 1, &frame)); /* before that was loaded */
  CHECK_EQUAL(frame.address, 0x7f001000);
  CHECK_EQUAL(frame.file_offset, 0);
  CHECK_TEXT(frame.path, "");
  CHECK_EQUAL(cachalot_trace_get_frame(trace, 0xff, 2, &frame), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_OK(cachalot_trace_get_frame(trace, 0xfe, 0, &frame));
  CHECK_EQUAL(frame.file_offset, 0x1000);
  CHECK_TEXT(frame.path, "/usr/lib/later.so");
  CHECK_EQUAL(cachalot_trace_get_frame(trace, 0xfd, 0, &frame), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_trace_get_frame(trace, 0, 0, &frame), CACHALOT_ERROR_INVALID_ARGUMENT);
  cachalot_trace_destroy(trace);
}

static void a_trace_of_format_2_tells_of_calls(void) {
  cachalot_trace* trace = trace_of(
      "# {\"format\": 2, \"command\": \"./server\", \"pid\": 4711, \"parent\": 4700,"
      " \"driver\": 13000, \"start_us\": 99}\n"
      "a,200,512,a0,0,,5,ff,34000,s,12\n"
      "q,200,512,a0,0,,6,,,t,,b0,7,c0de\n"
      "x,0,0,0\n");
  cachalot_trace_info info = {.struct_size = sizeof info};
  cachalot_trace_event event = {.struct_size = sizeof event};
  CHECK_OK(cachalot_trace_get_info(trace, &info));
  CHECK_EQUAL(info.format, 2);
  CHECK_EQUAL(info.driver_version, 13000);
  CHECK_TEXT(info.command, "./server");
  CHECK_EQUAL(info.process_id, 4711);
  CHECK_EQUAL(info.parent_process_id, 4700);
  CHECK_EQUAL(info.start_us, 99);
  CHECK_OK(cachalot_trace_get_event(trace, 0, &event));
  CHECK_EQUAL(event.cost_ns, 34000);
  CHECK_EQUAL(event.thread, 12);
  CHECK_EQUAL(event.freed_on, 0xa0);
  CHECK_EQUAL(event.entry, 's');
  CHECK_OK(cachalot_trace_get_event(trace, 1, &event));
  CHECK_EQUAL(event.cost_ns, -1);
  CHECK_EQUAL(event.freed_on, 0xb0);
  CHECK_EQUAL(event.wait_ns, 7);
  CHECK_EQUAL(event.driver_context, 0xc0de);
  CHECK_OK(cachalot_trace_get_event(trace, 2, &event));
  CHECK_EQUAL(event.action, CACHALOT_ACTION_CONTEXT_END);
  CHECK_TEXT(cachalot_action_name(event.action), "context_end");
  cachalot_trace_destroy(trace);
}

static void a_replay_tells_what_came_of_it(void) {
  cachalot_trace* trace = trace_of(kSmall);
  cachalot_replay_options options = {.struct_size = sizeof options};
  cachalot_replay_result result = {.struct_size = sizeof result};
  cachalot_replay* replay = NULL;
  options.expect = 1;
  CHECK_OK(cachalot_replay_run(trace, &options, &replay, &last_error));
  cachalot_trace_destroy(trace); /* A replay does not need its trace. */
  CHECK_OK(cachalot_replay_get_result(replay, &result));
  CHECK_EQUAL(result.events, 4);
  CHECK_EQUAL(result.allocations, 1);
  CHECK_EQUAL(result.out_of_memory, 0);
  CHECK_EQUAL(result.driver_allocations, 1);
  CHECK_EQUAL(result.driver_frees, 0);
  CHECK_EQUAL(result.segments, 1);
  CHECK_EQUAL(result.peak_requested, 512);
  CHECK_EQUAL(result.peak_reserved, 2 * MIB);
  CHECK_EQUAL(result.differing_events, 0);
  CHECK(result.first_difference == SIZE_MAX);
  CHECK_TEXT(result.expected, "");
  CHECK_EQUAL(cachalot_allocator_release(cachalot_replay_allocator(replay)), CACHALOT_RELEASE_2_11);
  CHECK_EQUAL(cachalot_memory_reserved(cachalot_replay_allocator(replay), 0), 2 * MIB);
  CHECK_TEXT(cachalot_driver_name(cachalot_allocator_driver(cachalot_replay_allocator(replay))),
             "sim");
  cachalot_replay_destroy(replay);
}

/* Three requests of 40 MiB, of which a device of 100 MiB serves two. */
static const char* const kThreeRequests =
    "# {\"torch\": \"2.15.0\", \"warm_up\": 0}\n"
    "a,100000000,41943040,0\na,200000000,41943040,0\na,300000000,41943040,0\n"
    "q,100000000,41943040,0\nc,100000000,41943040,0\n";

static cachalot_replay* replay_of(const char* text, const cachalot_replay_options* options) {
  cachalot_trace* trace = trace_of(text);
  cachalot_replay* replay = NULL;
  CHECK_OK(cachalot_replay_run(trace, options, &replay, &last_error));
  cachalot_trace_destroy(trace);
  return replay;
}

static void a_replay_can_end_at_the_first_failure(void) {
  cachalot_replay_options options = {.struct_size = sizeof options, .capacity = 100 * MIB};
  cachalot_replay_result result = {.struct_size = sizeof result};
  cachalot_replay* replay = replay_of(kThreeRequests, &options);
  CHECK_OK(cachalot_replay_get_result(replay, &result));
  CHECK_EQUAL(result.allocations, 3);
  CHECK_EQUAL(result.out_of_memory, 1);
  CHECK_EQUAL(cachalot_memory_allocated(cachalot_replay_allocator(replay), 0), 40 * MIB);
  cachalot_replay_destroy(replay);
  options.stop_at_out_of_memory = 1;
  replay = replay_of(kThreeRequests, &options);
  CHECK_OK(cachalot_replay_get_result(replay, &result));
  CHECK_EQUAL(result.out_of_memory, 1);
  CHECK_EQUAL(cachalot_memory_allocated(cachalot_replay_allocator(replay), 0), 80 * MIB);
  cachalot_replay_destroy(replay);
}

static void a_replay_on_a_device_of_its_peak_is_the_same(void) {
  cachalot_replay_options options = {.struct_size = sizeof options, .capacity = 1024 * MIB};
  cachalot_replay_result result = {.struct_size = sizeof result};
  cachalot_replay* replay = replay_of(kThreeRequests, &options);
  CHECK_OK(cachalot_replay_get_result(replay, &result));
  CHECK_EQUAL(result.peak_device_bytes, 120 * MIB);
  cachalot_replay_destroy(replay);
  options.capacity = result.peak_device_bytes;
  replay = replay_of(kThreeRequests, &options);
  CHECK_OK(cachalot_replay_get_result(replay, &result));
  CHECK_EQUAL(result.out_of_memory, 0);
  cachalot_replay_destroy(replay);
  options.capacity = 120 * MIB - 1;
  replay = replay_of(kThreeRequests, &options);
  CHECK_OK(cachalot_replay_get_result(replay, &result));
  CHECK_EQUAL(result.out_of_memory, 1);
  cachalot_replay_destroy(replay);
}

enum { kLongestGap = 65536 }; /* microseconds; of the first call, too */

static void check_call(const cachalot_replay* replay, size_t index, const char* function,
                       uint64_t size, uint64_t gap_us, uint64_t count) {
  cachalot_replay_call call = {.struct_size = sizeof call};
  CHECK_OK(cachalot_replay_get_call(replay, index, &call));
  CHECK_TEXT(call.function, function);
  CHECK_EQUAL(call.size, size);
  CHECK_EQUAL(call.gap_us, gap_us);
  CHECK_EQUAL(call.count, count);
}

static void a_replay_counts_the_calls_of_the_driver(void) {
  cachalot_replay_options options = {.struct_size = sizeof options, .capacity = 100 * MIB};
  cachalot_replay_call call = {.struct_size = sizeof call};
  cachalot_replay* replay = replay_of(kThreeRequests, &options);
  /* The third request fails twice: before the cache is given back, and behind it. */
  CHECK_EQUAL(cachalot_replay_call_count(replay), 3);
  check_call(replay, 0, "cuMemAlloc", 40 * MIB, 0, 1);
  check_call(replay, 1, "cuMemAlloc", 40 * MIB, 8, 2);
  check_call(replay, 2, "cuMemAlloc", 40 * MIB, kLongestGap, 1);
  CHECK_EQUAL(cachalot_replay_get_call(replay, 3, &call), CACHALOT_ERROR_INVALID_ARGUMENT);
  cachalot_replay_destroy(replay);
  options.config = "expandable_segments:True";
  options.capacity = 1024 * MIB;
  replay = replay_of(kThreeRequests, &options);
  CHECK_EQUAL(cachalot_replay_call_count(replay), 9);
  check_call(replay, 0, "cuMemAddressReserve", 1160 * MIB, kLongestGap, 1);
  check_call(replay, 1, "cuMemCreate", 20 * MIB, 0, 3);
  check_call(replay, 2, "cuMemCreate", 20 * MIB, 8, 2);
  check_call(replay, 3, "cuMemCreate", 20 * MIB, kLongestGap, 1);
  check_call(replay, 6, "cuMemMap", 20 * MIB, kLongestGap, 1);
  check_call(replay, 7, "cuMemSetAccess", 40 * MIB, 8, 2);
  check_call(replay, 8, "cuMemSetAccess", 40 * MIB, kLongestGap, 1);
  cachalot_replay_destroy(replay);
}

/* Requests that the cache serves make no call, and without times count as 10 microseconds. */
static void the_gap_before_a_call_is_told_by_requests_without_times(void) {
  memory_file* file = file_of("# {\"warm_up\": 0}\na,100000000,41943040,0\n");
  for (int i = 0; i < 26; i++) append_text(file, "a,200,512,0\nq,200,512,0\nc,200,512,0\n");
  append_text(file, "a,300000000,41943040,0\n");
  cachalot_replay* replay = replay_of(file->text, NULL);
  check_call(replay, 0, "cuMemAlloc", 2 * MIB, 8, 1);
  check_call(replay, 1, "cuMemAlloc", 40 * MIB, 256, 1);
  check_call(replay, 2, "cuMemAlloc", 40 * MIB, kLongestGap, 1);
  cachalot_replay_destroy(replay);
  free(file);
}

/* What the recorded program's own calls took is no work of the program: of 8.1 ms the free took 3. */
static void the_gap_before_a_call_is_the_time_without_the_recorded_calls(void) {
  cachalot_replay* replay = replay_of(
      "# {\"format\": 2}\n"
      "a,100000000,41943040,0,0,,1000000,,90000,s,7\n"
      "q,100000000,41943040,0,0,,1004000,,,,7\n"
      "c,100000000,41943040,0,0,,1004000,,,,7\n"
      "k,100000000,0,0,0,,1007000,,3000000,s,7\n"
      "a,200000000,83886080,0,0,,1008100,,100000,s,7\n",
      NULL);
  check_call(replay, 0, "cuMemAlloc", 40 * MIB, kLongestGap, 1);
  check_call(replay, 1, "cuMemAlloc", 80 * MIB, 4096, 1);
  cachalot_replay_destroy(replay);
}

/* The end of a context takes everything at once. */
static void the_end_of_a_context_counts_as_no_call(void) {
  cachalot_replay* replay = replay_of("# {\"format\": 2}\na,100000000,41943040,0\nx,0,1,0\n", NULL);
  CHECK_EQUAL(cachalot_memory_reserved(cachalot_replay_allocator(replay), 0), 0);
  CHECK_EQUAL(cachalot_replay_call_count(replay), 1);
  check_call(replay, 0, "cuMemAlloc", 40 * MIB, kLongestGap, 1);
  cachalot_replay_destroy(replay);
}

typedef struct watch {
  cachalot_replay* replay;
  int entries;
  uint64_t last_event;
  uint64_t block_size;
} watch;

/* No lock is held: the allocator can be asked. */
static void see_entry(void* user_data, uint64_t event, const cachalot_trace_entry* entry) {
  watch* seen = user_data;
  cachalot_block block = {.struct_size = sizeof block};
  CHECK(entry->struct_size == sizeof *entry);
  seen->entries++;
  seen->last_event = event;
  if (entry->action != CACHALOT_ACTION_ALLOC) return;
  CHECK_OK(cachalot_get_block(cachalot_replay_allocator(seen->replay), entry->address, &block,
                              &last_error));
  seen->block_size = block.size;
}

static void a_replay_tells_an_observer_what_it_does(void) {
  cachalot_trace* trace = trace_of(kSmall);
  watch seen = {0};
  cachalot_replay_options options = {
      .struct_size = sizeof options, .observer = see_entry, .observer_user_data = &seen};
  CHECK_OK(cachalot_replay_run(trace, &options, &seen.replay, &last_error));
  CHECK_EQUAL(seen.entries, 4); /* segment_alloc, alloc, free_requested, free_completed */
  CHECK_EQUAL(seen.last_event, 2);
  CHECK_EQUAL(seen.block_size, 512);
  cachalot_replay_destroy(seen.replay);
  cachalot_trace_destroy(trace);
}

static void count_failures(void* user_data, uint64_t event, const cachalot_trace_entry* entry) {
  uint64_t* failed_at = user_data;
  if (entry->action == CACHALOT_ACTION_OOM) *failed_at = event;
}

static void an_observer_sees_the_failure_that_ends_a_replay(void) {
  uint64_t failed_at = UINT64_MAX;
  cachalot_replay_options options = {.struct_size = sizeof options,
                                     .capacity = 100 * MIB,
                                     .stop_at_out_of_memory = 1,
                                     .observer = count_failures,
                                     .observer_user_data = &failed_at};
  cachalot_replay_destroy(replay_of(kThreeRequests, &options));
  CHECK_EQUAL(failed_at, 2);
}

static void a_replay_ends_behind_as_many_events_as_it_is_told(void) {
  cachalot_trace* trace = trace_of(kSmall);
  cachalot_replay_options options = {.struct_size = sizeof options, .event_count = 2};
  cachalot_replay_result result = {.struct_size = sizeof result};
  cachalot_replay* replay = NULL;
  CHECK_OK(cachalot_replay_run(trace, &options, &replay, &last_error));
  CHECK_OK(cachalot_replay_get_result(replay, &result));
  CHECK_EQUAL(result.events, 2);
  CHECK_EQUAL(cachalot_memory_allocated(cachalot_replay_allocator(replay), 0), 512);
  cachalot_replay_destroy(replay);
  options.expect = 1;
  CHECK_FAILS(cachalot_replay_run(trace, &options, &replay, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK(replay == NULL);
  cachalot_trace_destroy(trace);
}

static void a_history_replays_exactly(void) {
  fixture with = open_fixture();
  cachalot_history_options history = {.struct_size = sizeof history};
  cachalot_stats stats = {.struct_size = sizeof stats};
  cachalot_replay_options options = {.struct_size = sizeof options};
  cachalot_replay_result result = {.struct_size = sizeof result};
  cachalot_trace_info info = {.struct_size = sizeof info};
  memory_file* file = file_of("");
  cachalot_snapshot* snapshot = NULL;
  cachalot_trace* trace = NULL;
  cachalot_replay* replay = NULL;
  cachalot_address late = 0;
  history.enabled = 1;
  history.max_entries = 1000;
  CHECK_OK(cachalot_record_history(with.allocator, &history, &last_error));
  late = allocate_on(with, 3 * MIB, 0x10);
  free_block(with, allocate_on(with, 1000, 0));
  CHECK_OK(cachalot_sim_queue_work(with.driver, 0, 0x20, &last_error));
  CHECK_OK(cachalot_record_stream(with.allocator, late, 0x20, &last_error));
  free_block(with, late);
  free_block(with, allocate_on(with, 3 * MIB, 0x10));
  CHECK_OK(cachalot_sim_finish_device(with.driver, 0, &last_error));
  free_block(with, allocate_on(with, 3 * MIB, 0x10));
  CHECK_OK(cachalot_get_stats(with.allocator, 0, &stats, &last_error));
  CHECK_OK(cachalot_snapshot_take(with.allocator, NULL, &snapshot, &last_error));
  close_fixture(with);

  CHECK_OK(cachalot_trace_write(snapshot, &stats, "a \"test\"", write_file, file, &last_error));
  cachalot_snapshot_destroy(snapshot);
  CHECK_OK(cachalot_trace_read(read_file, file, &trace, &last_error));
  free(file);
  CHECK_OK(cachalot_trace_get_info(trace, &info));
  CHECK_TEXT(info.torch, "2.15");
  CHECK_EQUAL(info.release, CACHALOT_RELEASE_2_15);
  options.expect = 1;
  CHECK_OK(cachalot_replay_run(trace, &options, &replay, &last_error));
  CHECK_OK(cachalot_replay_get_result(replay, &result));
  CHECK_EQUAL(result.differing_events, 0);
  CHECK_TEXT(result.expected, "");
  CHECK_TEXT(result.actual, "");
  CHECK_EQUAL(result.events, 14);
  for (size_t i = 0;; i++) {
    const char* name = NULL;
    const char* name_after = NULL;
    int64_t value = 0;
    int64_t value_after = 0;
    cachalot_stats after = {.struct_size = sizeof after};
    CHECK_OK(cachalot_get_stats(cachalot_replay_allocator(replay), 0, &after, &last_error));
    if (cachalot_trace_get_stat(trace, i, &name, &value) != CACHALOT_OK) break;
    CHECK_OK(cachalot_stats_at(&after, info.release, i, &name_after, &value_after));
    CHECK_TEXT(name_after, name);
    CHECK_EQUAL(value_after, value);
  }
  cachalot_replay_destroy(replay);
  cachalot_trace_destroy(trace);
}

static int32_t stop_at_once(void* user_data, uint64_t done, uint64_t total) {
  (void)done;
  (void)total;
  ++*(int*)user_data;
  return 1;
}

static void failures_of_callbacks_are_told(void) {
  fixture with = open_fixture();
  cachalot_snapshot* snapshot = NULL;
  cachalot_trace* trace = NULL;
  cachalot_replay* replay = NULL;
  cachalot_replay_options options = {.struct_size = sizeof options};
  int calls = 0;
  memory_file* file = file_of(kSmall);
  file->calls_until_failure = 5;
  CHECK_FAILS_WITH(cachalot_trace_read(read_file, file, &trace, &last_error),
                   CACHALOT_ERROR_CALLBACK, "the read function returned -1");
  CHECK(trace == NULL);
  file->calls_until_failure = 0;
  CHECK_OK(cachalot_snapshot_take(with.allocator, NULL, &snapshot, &last_error));
  CHECK_FAILS_WITH(cachalot_trace_write(snapshot, NULL, NULL, write_file, file, &last_error),
                   CACHALOT_ERROR_CALLBACK, "the write function returned 7");
  cachalot_snapshot_destroy(snapshot);
  close_fixture(with);

  trace = trace_of(kSmall);
  options.progress = stop_at_once;
  options.progress_user_data = &calls;
  CHECK_FAILS_WITH(cachalot_replay_run(trace, &options, &replay, &last_error),
                   CACHALOT_ERROR_CALLBACK, "the replay was stopped after 4 of 4 events");
  CHECK_EQUAL(calls, 1);
  CHECK(replay == NULL);
  file->calls_until_failure = 0;
  CHECK_FAILS(cachalot_replay_write_script(trace, NULL, write_file, file, &last_error),
              CACHALOT_ERROR_CALLBACK);
  cachalot_trace_destroy(trace);
  free(file);
}

static void what_does_not_fit_is_refused(void) {
  cachalot_trace* trace = trace_of(kSmall);
  cachalot_replay* replay = NULL;
  cachalot_replay_options options = {.struct_size = sizeof options};
  options.expect = 1;
  options.config = "";
  CHECK_FAILS_WITH(cachalot_replay_run(trace, &options, &replay, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT,
                   "expect needs the recorded options, \"max_split_size_mb:64\"");
  options.config = NULL;
  options.release = CACHALOT_RELEASE_2_15;
  CHECK_FAILS(cachalot_replay_run(trace, &options, &replay, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  options.release = 212;
  CHECK_FAILS(cachalot_replay_run(trace, &options, &replay, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  options.release = 0;
  options.stop_at_out_of_memory = 1;
  CHECK_FAILS_WITH(cachalot_replay_run(trace, &options, &replay, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT,
                   "expect compares all events, so the replay cannot stop at one");
  options.stop_at_out_of_memory = 0;
  options.expect = 2;
  CHECK_FAILS(cachalot_replay_run(trace, &options, &replay, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  options.expect = 0;
  options.config = "nonsense:1";
  CHECK_FAILS(cachalot_replay_run(trace, &options, &replay, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK(replay == NULL);
  cachalot_trace_destroy(trace);

  trace = trace_of("# {}\nq,200,1,0\n");
  CHECK_FAILS_WITH(cachalot_replay_run(trace, NULL, &replay, &last_error), CACHALOT_ERROR_IO,
                   "line 2: 0x200 is freed but is not live");
  cachalot_trace_destroy(trace);
}

static void input_that_is_no_trace_is_refused(void) {
  memory_file* file = file_of("# {}\na,200,1,0\nnonsense\n");
  cachalot_trace* trace = NULL;
  CHECK_FAILS_WITH(cachalot_trace_read(read_file, file, &trace, &last_error), CACHALOT_ERROR_IO,
                   "line 3: not an event 'nonsense'");
  CHECK(trace == NULL);
  free(file);
}

static void a_run_can_be_written_as_a_script(void) {
  cachalot_trace* trace = trace_of(kSmall);
  memory_file* file = file_of("");
  CHECK_OK(cachalot_replay_write_script(trace, NULL, write_file, file, &last_error));
  CHECK_TEXT(file->text,
             "config max_split_size_mb:64\ndevice 1073741824 1\naddresses 700000000000\na 1 512 "
             "0xa0\nf 1\nstats\n");
  free(file);
  cachalot_trace_destroy(trace);
}

static memory_file* script_of(const char* text, const cachalot_replay_options* options) {
  cachalot_trace* trace = trace_of(text);
  memory_file* file = file_of("");
  CHECK_OK(cachalot_replay_write_script(trace, options, write_file, file, &last_error));
  cachalot_trace_destroy(trace);
  return file;
}

static void a_script_has_the_events_that_are_asked_for_and_goes_on_behind_a_failure(void) {
  cachalot_replay_options options = {.struct_size = sizeof options, .capacity = 100 * MIB};
  memory_file* whole = script_of(kThreeRequests, &options);
  memory_file* file;
  options.stop_at_out_of_memory = 1;
  file = script_of(kThreeRequests, &options);
  CHECK_TEXT(file->text, whole->text);
  CHECK(strstr(file->text, "a 3 41943040") != NULL);
  free(file);
  options.event_count = 2;
  file = script_of(kThreeRequests, &options);
  CHECK(strstr(file->text, "a 2 41943040") != NULL);
  CHECK(strstr(file->text, "a 3 41943040") == NULL);
  free(file);
  free(whole);
}

static void nothing_is_an_invalid_argument(void) {
  cachalot_trace* trace = trace_of(kSmall);
  cachalot_trace_info info = {.struct_size = 0};
  CHECK_FAILS(cachalot_trace_read(NULL, NULL, &trace, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_trace_read(read_file, NULL, NULL, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_trace_get_info(NULL, &info), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_trace_get_info(trace, NULL), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_trace_get_info(trace, &info), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_trace_get_event(trace, 0, NULL), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_trace_get_frame(trace, 0, 0, NULL), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_replay_run(NULL, NULL, NULL, &last_error), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_replay_run(trace, NULL, NULL, &last_error), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_trace_write(NULL, NULL, NULL, write_file, NULL, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_replay_write_script(trace, NULL, NULL, NULL, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_replay_get_result(NULL, NULL), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_replay_call_count(NULL), 0);
  CHECK_EQUAL(cachalot_replay_get_call(NULL, 0, NULL), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK(cachalot_replay_allocator(NULL) == NULL);
  cachalot_replay_destroy(NULL);
  cachalot_trace_destroy(NULL);
  cachalot_trace_destroy(trace);
}

static void a_replay_makes_the_decisions_of_its_policy(void) {
  cachalot_trace* const trace = trace_of(kSmall);
  cachalot_replay_options options = {.struct_size = sizeof options, .config = ""};
  cachalot_replay* replay = NULL;
  CHECK_OK(cachalot_replay_run(trace, &options, &replay, &last_error));
  CHECK_EQUAL(cachalot_max_memory_reserved(cachalot_replay_allocator(replay), 0), 2 * MIB);
  cachalot_replay_destroy(replay);
  options.policy = CACHALOT_POLICY_SERVING;
  options.page_bytes = 8 * MIB;
  CHECK_OK(cachalot_replay_run(trace, &options, &replay, &last_error));
  CHECK_EQUAL(cachalot_max_memory_reserved(cachalot_replay_allocator(replay), 0), 8 * MIB);
  cachalot_replay_destroy(replay);
  replay = NULL;
  options.expect = 1;
  CHECK_FAILS(cachalot_replay_run(trace, &options, &replay, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK(replay == NULL);
  cachalot_trace_destroy(trace);
}

int main(void) {
  RUN(a_trace_tells_what_it_holds);
  RUN(a_trace_of_format_2_tells_of_calls);
  RUN(a_trace_of_format_2_tells_of_stacks);
  RUN(a_replay_tells_what_came_of_it);
  RUN(a_replay_can_end_at_the_first_failure);
  RUN(a_replay_on_a_device_of_its_peak_is_the_same);
  RUN(a_replay_counts_the_calls_of_the_driver);
  RUN(the_gap_before_a_call_is_told_by_requests_without_times);
  RUN(the_gap_before_a_call_is_the_time_without_the_recorded_calls);
  RUN(the_end_of_a_context_counts_as_no_call);
  RUN(a_replay_tells_an_observer_what_it_does);
  RUN(an_observer_sees_the_failure_that_ends_a_replay);
  RUN(a_replay_ends_behind_as_many_events_as_it_is_told);
  RUN(a_history_replays_exactly);
  RUN(failures_of_callbacks_are_told);
  RUN(what_does_not_fit_is_refused);
  RUN(input_that_is_no_trace_is_refused);
  RUN(a_run_can_be_written_as_a_script);
  RUN(a_script_has_the_events_that_are_asked_for_and_goes_on_behind_a_failure);
  RUN(nothing_is_an_invalid_argument);
  RUN(a_replay_makes_the_decisions_of_its_policy);
  return report();
}
