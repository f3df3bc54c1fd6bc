/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Recorders: what they write, while they write it, reads back and replays. */
#define _DEFAULT_SOURCE

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static char folder[64];

static const char* in_folder(const char* name) {
  static char paths[4][128];
  static int next = 0;
  char* const path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static int64_t read_stream(void* user_data, void* buffer, size_t capacity) {
  const size_t count = fread(buffer, 1, capacity, user_data);
  return ferror((FILE*)user_data) ? -1 : (int64_t)count;
}

/* NULL where there is none. */
static cachalot_trace* trace_at(const char* path) {
  FILE* const file = fopen(path, "rb");
  cachalot_trace* trace = NULL;
  if (file == NULL) return NULL;
  CHECK_OK(cachalot_trace_read(read_stream, file, &trace, &last_error));
  fclose(file);
  return trace;
}

static size_t count_events(const cachalot_trace* trace, int32_t action) {
  cachalot_trace_event event = {.struct_size = sizeof event};
  size_t i, count = 0;
  for (i = 0; cachalot_trace_get_event(trace, i, &event) == CACHALOT_OK; i++)
    if (event.action == action) count++;
  return count;
}

static cachalot_trace_event last_event(const cachalot_trace* trace) {
  cachalot_trace_info info = {.struct_size = sizeof info};
  cachalot_trace_event event = {.struct_size = sizeof event};
  CHECK_OK(cachalot_trace_get_info(trace, &info));
  CHECK_OK(cachalot_trace_get_event(trace, info.event_count - 1, &event));
  return event;
}

static cachalot_replay_result replay_of(const cachalot_trace* trace) {
  cachalot_replay* replay = NULL;
  cachalot_replay_result result = {.struct_size = sizeof result};
  CHECK_OK(cachalot_replay_run(trace, NULL, &replay, &last_error));
  CHECK_OK(cachalot_replay_get_result(replay, &result));
  result.expected = result.actual = "";
  cachalot_replay_destroy(replay);
  return result;
}

static uint64_t start(fixture opened, const cachalot_recorder_options* options) {
  uint64_t id = 0;
  CHECK_OK(cachalot_recorder_start(opened.allocator, options, &id, &last_error));
  return id;
}

static uint64_t start_file(fixture opened, const char* path) {
  const cachalot_recorder_options options = {.struct_size = sizeof options, .path = path};
  return start(opened, &options);
}

static void stop(fixture opened, uint64_t id) {
  CHECK_OK(cachalot_recorder_stop(opened.allocator, id, &last_error));
}

static cachalot_recorder_stats stats_of(fixture opened, uint64_t id) {
  cachalot_recorder_stats stats = {.struct_size = sizeof stats};
  CHECK_OK(cachalot_recorder_get_stats(opened.allocator, id, &stats, &last_error));
  return stats;
}

static uint32_t random_number(void) {
  static uint64_t state = 11;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}

enum { kSlots = 40 };
typedef struct workload {
  cachalot_address blocks[kSlots];
} workload;

/* Requests of many sizes on three streams, uses on other streams, now and then an empty cache. */
static void work(fixture opened, workload* load, int steps) {
  int i;
  for (i = 0; i < steps; i++) {
    cachalot_address* const block = &load->blocks[random_number() % kSlots];
    if (random_number() % 400 == 0)
      CHECK_OK(cachalot_empty_device_cache(opened.allocator, 0, &last_error));
    if (*block == 0) {
      *block = allocate_on(opened, 1 + random_number() % (random_number() % 4 ? 100000 : 5000000),
                           random_number() % 3);
      continue;
    }
    if (random_number() % 8 == 0)
      CHECK_OK(cachalot_record_stream(opened.allocator, *block, 7, &last_error));
    free_block(opened, *block);
    *block = 0;
  }
}

static void end_work(fixture opened, workload* load) {
  int i;
  for (i = 0; i < kSlots; i++) {
    if (load->blocks[i] != 0) free_block(opened, load->blocks[i]);
    load->blocks[i] = 0;
  }
}

static cachalot_stats stats_of_device(fixture opened) {
  cachalot_stats stats = {.struct_size = sizeof stats};
  CHECK_OK(cachalot_get_stats(opened.allocator, 0, &stats, &last_error));
  return stats;
}

static void a_recording_from_the_start_replays_to_the_same_figures(void) {
  fixture with = open_fixture();
  workload load = {{0}};
  const uint64_t id = start_file(with, in_folder("start"));
  cachalot_replay_result result;
  cachalot_trace* trace;
  cachalot_trace_info info = {.struct_size = sizeof info};
  cachalot_stats stats;
  work(with, &load, 4000);
  stats = stats_of_device(with);
  stop(with, id);
  trace = trace_at(in_folder("start"));
  CHECK_OK(cachalot_trace_get_info(trace, &info));
  CHECK_EQUAL(info.format, 2);
  CHECK_EQUAL(info.release, CACHALOT_RELEASE_2_15);
  CHECK_EQUAL(info.device_total, 1024 * MIB);
  CHECK_EQUAL(info.process_id, getpid());
  CHECK_EQUAL(last_event(trace).action, CACHALOT_ACTION_RECORDING_END);
  CHECK_EQUAL(last_event(trace).size, 0);
  CHECK_EQUAL(count_events(trace, CACHALOT_ACTION_LIVE_AT_BEGIN), 0);
  result = replay_of(trace);
  CHECK(stats.num_device_alloc > 5 && stats.num_device_free > 0);
  CHECK_EQUAL(result.driver_allocations, stats.num_device_alloc);
  CHECK_EQUAL(result.driver_frees, stats.num_device_free);
  CHECK_EQUAL(result.peak_requested, stats.requested_bytes.all.peak);
  CHECK_EQUAL(result.peak_allocated, stats.allocated_bytes.all.peak);
  CHECK_EQUAL(result.peak_reserved, stats.reserved_bytes.all.peak);
  cachalot_trace_destroy(trace);
  end_work(with, &load);
  close_fixture(with);
}

static void a_recording_begins_with_what_is_live(void) {
  cachalot_trace_event event = {.struct_size = sizeof event};
  fixture with = open_fixture();
  const cachalot_address live = allocate_on(with, 1000, 5);
  const cachalot_address waiting = allocate_on(with, 3000000, 0);
  cachalot_trace* trace;
  uint64_t id;
  CHECK_OK(cachalot_sim_queue_work(with.driver, 0, 9, &last_error));
  CHECK_OK(cachalot_record_stream(with.allocator, waiting, 9, &last_error));
  free_block(with, waiting);
  id = start_file(with, in_folder("live"));
  CHECK_EQUAL(stats_of(with, id).events, 3);
  free_block(with, live);
  CHECK_OK(cachalot_sim_finish_stream(with.driver, 0, 9, &last_error));
  free_block(with, allocate_on(with, 100, 0));
  stop(with, id);
  trace = trace_at(in_folder("live"));
  CHECK_OK(cachalot_trace_get_event(trace, 0, &event));
  CHECK_EQUAL(event.action, CACHALOT_ACTION_LIVE_AT_BEGIN);
  CHECK_EQUAL(count_events(trace, CACHALOT_ACTION_LIVE_AT_BEGIN), 2);
  CHECK_EQUAL(count_events(trace, CACHALOT_ACTION_FREE_REQUESTED), 3);
  CHECK_EQUAL(count_events(trace, CACHALOT_ACTION_FREE_COMPLETED), 3);
  CHECK_EQUAL(replay_of(trace).allocations, 3);
  cachalot_trace_destroy(trace);
  close_fixture(with);
}

static void a_recorder_needs_no_history_and_leaves_it_off(void) {
  fixture with = open_fixture();
  cachalot_snapshot* snapshot = NULL;
  const uint64_t id = start_file(with, in_folder("off"));
  free_block(with, allocate_on(with, 100, 0));
  CHECK_EQUAL(stats_of(with, id).events, 4); /* S a q c */
  CHECK_OK(cachalot_snapshot_take(with.allocator, NULL, &snapshot, &last_error));
  CHECK_EQUAL(cachalot_snapshot_entry_count(snapshot, 0), 0);
  cachalot_snapshot_destroy(snapshot);
  stop(with, id);
  close_fixture(with);
}

/* A function that keeps what it gets. */
typedef struct receiver {
  char text[1 << 20];
  size_t size;
  int calls;
  int calls_until_failure; /* -1: never */
  int is_cut;              /* something came that is no whole line */
  int destroyed;
} receiver;

static int32_t receive(void* user_data, const void* data, size_t size) {
  receiver* const to = user_data;
  if (to->calls_until_failure-- == 0) return 5;
  to->calls++;
  if (size == 0 || ((const char*)data)[size - 1] != '\n') to->is_cut = 1;
  if (size <= sizeof to->text - to->size) {
    memcpy(to->text + to->size, data, size);
    to->size += size;
  }
  return 0;
}

static void destroy_receiver(void* user_data) { ((receiver*)user_data)->destroyed++; }

static receiver* new_receiver(void) {
  receiver* const to = calloc(1, sizeof *to);
  to->calls_until_failure = -1;
  return to;
}

static cachalot_recorder_options options_to(receiver* to) {
  const cachalot_recorder_options options = {.struct_size = sizeof options,
                                             .write = receive,
                                             .write_user_data = to,
                                             .write_destroy = destroy_receiver};
  return options;
}

static cachalot_trace* trace_of(receiver* to) {
  FILE* const file = fmemopen(to->text, to->size, "rb");
  cachalot_trace* trace = NULL;
  CHECK_OK(cachalot_trace_read(read_stream, file, &trace, &last_error));
  fclose(file);
  return trace;
}

static void a_function_gets_whole_lines_and_the_end(void) {
  fixture with = open_fixture();
  receiver* const to = new_receiver();
  const cachalot_recorder_options options = options_to(to);
  const uint64_t id = start(with, &options);
  workload load = {{0}};
  char path[8] = "old";
  cachalot_trace* trace;
  CHECK_EQUAL(to->calls, 0); /* held back */
  work(with, &load, 3000);
  end_work(with, &load);
  CHECK(to->calls >= 1);
  CHECK_OK(cachalot_recorder_flush(with.allocator, id, &last_error));
  CHECK_EQUAL(stats_of(with, id).bytes, to->size);
  CHECK_OK(cachalot_recorder_path(with.allocator, id, path, sizeof path, NULL, &last_error));
  CHECK_TEXT(path, "");
  CHECK_EQUAL(to->destroyed, 0);
  stop(with, id);
  CHECK_EQUAL(to->destroyed, 1);
  CHECK_EQUAL(to->is_cut, 0);
  trace = trace_of(to);
  CHECK_EQUAL(last_event(trace).action, CACHALOT_ACTION_RECORDING_END);
  CHECK_EQUAL(count_events(trace, CACHALOT_ACTION_ALLOC), replay_of(trace).allocations);
  cachalot_trace_destroy(trace);
  free(to);
  close_fixture(with);
}

static int log_calls = 0;
static char log_text[512] = "";

static void keep_log(void* user_data, int32_t level, const char* message) {
  (void)user_data;
  CHECK_EQUAL(level, CACHALOT_LOG_WARNING);
  log_calls++;
  snprintf(log_text, sizeof log_text, "%s", message);
}

static fixture open_with_log(void) {
  const cachalot_allocator_options options = {.release = CACHALOT_RELEASE_2_15, .log = keep_log};
  log_calls = 0;
  log_text[0] = '\0';
  return open_with(options);
}

static void a_write_that_fails_ends_the_recording_and_no_request(void) {
  fixture with = open_with_log();
  receiver* const to = new_receiver();
  const cachalot_recorder_options options = options_to(to);
  workload load = {{0}};
  uint64_t id;
  cachalot_recorder_stats stats;
  to->calls_until_failure = 0;
  id = start(with, &options);
  work(with, &load, 5000);
  end_work(with, &load);
  stats = stats_of(with, id);
  CHECK(stats.lost > 1000);
  CHECK_EQUAL(stats.bytes, 0);
  CHECK_EQUAL(log_calls, 1);
  CHECK(strstr(log_text, "loses events") != NULL);
  CHECK_FAILS(cachalot_recorder_flush(with.allocator, id, &last_error), CACHALOT_ERROR_IO);
  stop(with, id);
  CHECK_EQUAL(to->destroyed, 1);
  CHECK_EQUAL(to->calls, 0); /* nothing comes behind what failed */
  free(to);
  close_fixture(with);
}

static void a_full_disk_ends_the_recording_and_no_request(void) {
  fixture with = open_with_log();
  workload load = {{0}};
  struct rlimit before, limit;
  cachalot_recorder_stats stats;
  cachalot_trace* trace;
  uint64_t id;
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  limit = before;
  limit.rlim_cur = (rlim_t)(MIB + MIB / 2);
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  id = start_file(with, in_folder("full"));
  work(with, &load, 40000);
  end_work(with, &load);
  stats = stats_of(with, id);
  stop(with, id);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(stats.lost > 1000);
  CHECK_EQUAL(log_calls, 1);
  CHECK(strstr(log_text, in_folder("full")) != NULL);
  trace = trace_at(in_folder("full"));
  CHECK_EQUAL(last_event(trace).action, CACHALOT_ACTION_RECORDING_END);
  CHECK_EQUAL(last_event(trace).size, stats.lost);
  CHECK(replay_of(trace).allocations > 1000);
  cachalot_trace_destroy(trace);
  close_fixture(with);
}

static const char* text_of_context(const cachalot_trace* trace, size_t event_index) {
  static char text[256];
  cachalot_trace_event event = {.struct_size = sizeof event};
  CHECK_OK(cachalot_trace_get_event(trace, event_index, &event));
  CHECK_OK(cachalot_trace_context_text(trace, event.context, text, sizeof text, NULL));
  return text;
}

static void events_tell_the_labels_of_their_threads(void) {
  fixture with = open_fixture();
  receiver* const to = new_receiver();
  const cachalot_recorder_options options = options_to(to);
  const uint64_t id = start(with, &options);
  cachalot_trace* trace;
  char text[8] = "old";
  size_t length = 99;
  CHECK_OK(cachalot_label_push("model", &last_error));
  CHECK_OK(cachalot_label_push("line\nbreak\\", &last_error));
  free_block(with, allocate_on(with, 100, 0)); /* S a q c */
  CHECK_OK(cachalot_label_pop(&last_error));
  free_block(with, allocate_on(with, 100, 0)); /* a q c */
  CHECK_OK(cachalot_label_pop(&last_error));
  free_block(with, allocate_on(with, 100, 0));
  stop(with, id);
  trace = trace_of(to);
  CHECK_TEXT(text_of_context(trace, 1), "model/line\nbreak\\");
  CHECK_TEXT(text_of_context(trace, 2), "model/line\nbreak\\");
  CHECK_TEXT(text_of_context(trace, 4), "model");
  CHECK_TEXT(text_of_context(trace, 7), "");
  CHECK_OK(cachalot_trace_context_text(trace, 77, text, sizeof text, &length));
  CHECK_TEXT(text, "");
  CHECK_EQUAL(length, 0);
  cachalot_trace_destroy(trace);
  free(to);
  close_fixture(with);
}

static void events_tell_the_contexts_of_the_history_if_asked(void) {
  const cachalot_allocator_options of_labels = {.release = CACHALOT_RELEASE_2_15,
                                                .context_source = CACHALOT_CONTEXT_LABELS};
  const cachalot_history_options history = {.struct_size = sizeof history,
                                            .enabled = 1,
                                            .context = CACHALOT_CONTEXT_LEVEL_ALL,
                                            .max_entries = 5};
  int32_t contexts;
  for (contexts = CACHALOT_RECORD_HISTORY_CONTEXTS; contexts <= CACHALOT_RECORD_NO_CONTEXTS;
       contexts++) {
    fixture with = open_with(of_labels);
    receiver* const to = new_receiver();
    cachalot_recorder_options options = options_to(to);
    cachalot_trace* trace;
    uint64_t id;
    options.contexts = contexts;
    options.workload = "a server";
    CHECK_OK(cachalot_record_history(with.allocator, &history, &last_error));
    id = start(with, &options);
    CHECK_OK(cachalot_label_push("model", &last_error));
    CHECK_OK(cachalot_label_push("kv", &last_error));
    free_block(with, allocate_on(with, 100, 0));
    CHECK_OK(cachalot_label_pop(&last_error));
    CHECK_OK(cachalot_label_pop(&last_error));
    stop(with, id);
    trace = trace_of(to);
    CHECK_TEXT(text_of_context(trace, 1),
               contexts == CACHALOT_RECORD_NO_CONTEXTS ? "" : "kv\nmodel");
    {
      cachalot_trace_info info = {.struct_size = sizeof info};
      CHECK_OK(cachalot_trace_get_info(trace, &info));
      CHECK_TEXT(info.workload, "a server");
    }
    cachalot_trace_destroy(trace);
    free(to);
    close_fixture(with);
  }
}

static void a_trace_tells_a_stack_as_text(void) {
  char lines[] =
      "# {\"format\": 2}\n"
      "# module 400000 500000 1000 /usr/bin/server\n"
      "# stack ff 401234;7f001000\n"
      "# label fe a\\nb\n"
      "a,200,512,0,0,,,ff\n";
  char broken[] = "# {\"format\": 2}\n# label fe a\\b\n";
  char text[64] = "";
  FILE* file = fmemopen(lines, strlen(lines), "rb");
  cachalot_trace* trace = NULL;
  CHECK_OK(cachalot_trace_read(read_stream, file, &trace, &last_error));
  fclose(file);
  CHECK_OK(cachalot_trace_context_text(trace, 0xff, text, sizeof text, NULL));
  CHECK_TEXT(text, "/usr/bin/server+0x2234\n0x7f001000");
  CHECK_OK(cachalot_trace_context_text(trace, 0xfe, text, sizeof text, NULL));
  CHECK_TEXT(text, "a\nb");
  cachalot_trace_destroy(trace);
  file = fmemopen(broken, strlen(broken), "rb");
  CHECK_FAILS_WITH(cachalot_trace_read(read_stream, file, &trace, &last_error), CACHALOT_ERROR_IO,
                   "line 2: neither an event nor a comment '# label fe a\\b'");
  fclose(file);
}

/* The last bytes of a file. */
static int ends_with(const char* path, const char* text) {
  char last[64] = "";
  FILE* const file = fopen(path, "rb");
  const size_t length = strlen(text);
  if (file == NULL) return 0;
  fseek(file, -(long)length, SEEK_END);
  last[fread(last, 1, length, file)] = '\0';
  fclose(file);
  return strcmp(last, text) == 0;
}

static void a_bounded_recording_goes_on_in_a_next_file(void) {
  fixture with = open_fixture();
  const cachalot_recorder_options options = {
      .struct_size = sizeof options, .path = in_folder("bounded"), .max_bytes = 2 * MIB};
  const uint64_t id = start(with, &options);
  workload load = {{0}};
  cachalot_trace* trace;
  CHECK_OK(cachalot_label_push("label", &last_error));
  work(with, &load, 70000);
  CHECK(stats_of(with, id).bytes > 3 * MIB);
  CHECK_EQUAL(stats_of(with, id).lost, 0);
  stop(with, id);
  CHECK_OK(cachalot_label_pop(&last_error));
  CHECK(ends_with(in_folder("bounded.before"), "# continued\n"));
  CHECK(access(in_folder("bounded.2"), F_OK) != 0);
  trace = trace_at(in_folder("bounded"));
  CHECK(count_events(trace, CACHALOT_ACTION_LIVE_AT_BEGIN) > 3);
  CHECK_TEXT(text_of_context(trace, 0), "label");
  CHECK(replay_of(trace).allocations > 10);
  CHECK_EQUAL(last_event(trace).action, CACHALOT_ACTION_RECORDING_END);
  cachalot_trace_destroy(trace);
  trace = trace_at(in_folder("bounded.before"));
  CHECK(count_events(trace, CACHALOT_ACTION_LIVE_AT_BEGIN) > 3);
  CHECK(replay_of(trace).allocations > 1000);
  cachalot_trace_destroy(trace);
  end_work(with, &load);
  close_fixture(with);
}

/* Also what no flush came behind. */
static void a_recording_is_whole_after_its_process_was_killed(void) {
  const pid_t child = fork();
  int status = 0;
  cachalot_trace* trace;
  if (child == 0) {
    fixture with = open_fixture();
    workload load = {{0}};
    start_file(with, in_folder("killed-%p"));
    work(with, &load, 9999);
    allocate_on(with, 4321, 0);
    raise(SIGKILL);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  {
    char name[32];
    snprintf(name, sizeof name, "killed-%d", (int)child);
    trace = trace_at(in_folder(name));
  }
  CHECK(trace != NULL);
  CHECK_EQUAL(last_event(trace).action, CACHALOT_ACTION_ALLOC);
  CHECK_EQUAL(last_event(trace).size, 4321);
  CHECK(replay_of(trace).allocations > 4000);
  cachalot_trace_destroy(trace);
}

static void a_forked_child_writes_nothing_into_its_parents_recording(void) {
  fixture with = open_fixture();
  const uint64_t id = start_file(with, in_folder("parent"));
  cachalot_trace* trace;
  int status = 0;
  pid_t child;
  free_block(with, allocate_on(with, 100, 0));
  child = fork();
  if (child == 0) {
    cachalot_address address = 0;
    const int is_refused =
        cachalot_allocate(with.allocator, 100, 0, 0, &address, NULL) != CACHALOT_OK &&
        cachalot_recorder_flush(with.allocator, id, NULL) == CACHALOT_ERROR_INVALID_STATE &&
        cachalot_recorder_stop(with.allocator, id, NULL) == CACHALOT_ERROR_INVALID_STATE;
    exit(is_refused ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  free_block(with, allocate_on(with, 100, 0));
  stop(with, id);
  trace = trace_at(in_folder("parent"));
  CHECK_EQUAL(count_events(trace, CACHALOT_ACTION_ALLOC), 2);
  CHECK_EQUAL(count_events(trace, CACHALOT_ACTION_RECORDING_END), 1);
  cachalot_trace_destroy(trace);
  close_fixture(with);
}

static void two_recorders_write_the_same_events(void) {
  fixture with = open_fixture();
  const uint64_t first = start_file(with, in_folder("two"));
  const uint64_t second = start_file(with, in_folder("two"));
  char path[128] = "";
  CHECK(first != second);
  CHECK_OK(cachalot_recorder_path(with.allocator, second, path, sizeof path, NULL, &last_error));
  CHECK_TEXT(path, in_folder("two.2"));
  free_block(with, allocate_on(with, 100, 0));
  CHECK_EQUAL(stats_of(with, first).events, 4);
  CHECK_EQUAL(stats_of(with, second).events, 4);
  stop(with, first);
  CHECK_FAILS(cachalot_recorder_flush(with.allocator, first, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  free_block(with, allocate_on(with, 100, 0));
  CHECK_EQUAL(stats_of(with, second).events, 7);
  CHECK_OK(cachalot_detach(with.allocator, second, &last_error));
  CHECK(ends_with(in_folder("two"), "\n"));
  close_fixture(with);
}

static void an_allocator_that_ends_stops_its_recorders(void) {
  fixture with = open_fixture();
  receiver* const to = new_receiver();
  const cachalot_recorder_options options = options_to(to);
  cachalot_trace* trace;
  start(with, &options);
  allocate_on(with, 100, 0);
  CHECK_OK(cachalot_allocator_destroy_all(with.allocator, &last_error));
  cachalot_driver_destroy(with.driver);
  CHECK_EQUAL(to->destroyed, 1);
  trace = trace_of(to);
  CHECK_EQUAL(last_event(trace).action, CACHALOT_ACTION_RECORDING_END);
  cachalot_trace_destroy(trace);
  free(to);
}

static void refuse(fixture with, cachalot_recorder_options options, cachalot_status status,
                   const char* text) {
  uint64_t id = 77;
  options.struct_size = sizeof options;
  CHECK_FAILS_WITH(cachalot_recorder_start(with.allocator, &options, &id, &last_error), status,
                   text);
  CHECK_EQUAL(id, 77);
}

static void options_that_do_not_fit_are_refused(void) {
  fixture with = open_fixture();
  receiver* const to = new_receiver();
  cachalot_recorder_options options = options_to(to);
  const char* const missing = in_folder("no/such/folder");
  char text[200];
  refuse(with, (cachalot_recorder_options){.path = ""}, CACHALOT_ERROR_INVALID_ARGUMENT,
         "a recorder needs either a path or a write function");
  options.path = in_folder("both");
  refuse(with, options, CACHALOT_ERROR_INVALID_ARGUMENT,
         "a recorder needs either a path or a write function");
  CHECK_EQUAL(to->destroyed, 1);
  options.path = NULL;
  options.max_bytes = 4 * MIB;
  refuse(with, options, CACHALOT_ERROR_INVALID_ARGUMENT,
         "max_bytes bounds a file, and this recorder has a write function");
  CHECK_EQUAL(to->destroyed, 2);
  options.max_bytes = 0;
  options.contexts = 3;
  refuse(with, options, CACHALOT_ERROR_INVALID_ARGUMENT, "contexts is 3: expected 0 to 2");
  CHECK_EQUAL(to->destroyed, 3);
  refuse(with, (cachalot_recorder_options){.path = in_folder("small"), .max_bytes = 5},
         CACHALOT_ERROR_INVALID_ARGUMENT, "max_bytes is 5: expected 0 or at least 2097152");
  snprintf(text, sizeof text, "%s: cannot be made: No such file or directory", missing);
  refuse(with, (cachalot_recorder_options){.path = missing}, CACHALOT_ERROR_IO, text);
  CHECK(access(in_folder("both"), F_OK) != 0 && access(in_folder("small"), F_OK) != 0);
  CHECK_FAILS_WITH(cachalot_recorder_stop(with.allocator, 999, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "no recorder has the id 999");
  free(to);
  close_fixture(with);
}

static void the_drivers_pool_has_no_recorder(void) {
  const cachalot_allocator_options options = {.config = "backend:cudaMallocAsync",
                                              .release = CACHALOT_RELEASE_2_15};
  fixture with = open_with(options);
  const cachalot_recorder_options recorder = {.struct_size = sizeof recorder,
                                              .path = in_folder("async")};
  uint64_t id = 0;
  CHECK_FAILS(cachalot_recorder_start(with.allocator, &recorder, &id, &last_error),
              CACHALOT_ERROR_NOT_SUPPORTED);
  CHECK(access(in_folder("async"), F_OK) != 0);
  close_fixture(with);
}

/* ---- By the environment */

static fixture open_plain(void) {
  fixture opened = {open_sim(), NULL};
  const cachalot_allocator_options options = {
      .struct_size = sizeof options, .driver = opened.driver, .config = "", .log = keep_log};
  CHECK_OK(cachalot_allocator_create(&options, &opened.allocator, &last_error));
  return opened;
}

static void the_environment_starts_a_recorder_for_each_allocator(void) {
  fixture first, second;
  char name[64];
  cachalot_trace* trace;
  setenv("CACHALOT_TRACE", in_folder("env-%p"), 1);
  first = open_plain();
  second = open_plain();
  unsetenv("CACHALOT_TRACE");
  free_block(second, allocate_on(second, 4444, 0));
  close_fixture(second);
  close_fixture(first);
  snprintf(name, sizeof name, "env-%d", (int)getpid());
  trace = trace_at(in_folder(name));
  CHECK_EQUAL(count_events(trace, CACHALOT_ACTION_ALLOC), 0);
  CHECK_EQUAL(last_event(trace).action, CACHALOT_ACTION_RECORDING_END);
  cachalot_trace_destroy(trace);
  strcat(name, ".2");
  trace = trace_at(in_folder(name));
  CHECK_EQUAL(count_events(trace, CACHALOT_ACTION_ALLOC), 1);
  cachalot_trace_destroy(trace);
}

static void the_environment_starts_none_under_the_proxy(void) {
  static const char* const kVariables[] = {"CACHALOT_RECORD", "CACHALOT_RUN_FREE"};
  size_t i;
  setenv("CACHALOT_TRACE", in_folder("proxied"), 1);
  for (i = 0; i < 2; i++) {
    setenv(kVariables[i], "wait", 1);
    close_fixture(open_plain());
    CHECK(access(in_folder("proxied"), F_OK) != 0);
    unsetenv(kVariables[i]);
  }
  setenv("CACHALOT_RECORD", "file", 1); /* but not by a proxy that is switched off */
  setenv("CACHALOT_DISABLE", "1", 1);
  close_fixture(open_plain());
  CHECK(access(in_folder("proxied"), F_OK) == 0);
  unsetenv("CACHALOT_RECORD");
  unsetenv("CACHALOT_DISABLE");
  unsetenv("CACHALOT_TRACE");
}

static void an_allocator_goes_on_without_what_the_environment_asks_for(void) {
  fixture with;
  cachalot_allocator* none = NULL;
  cachalot_allocator_options options = {.struct_size = sizeof options};
  log_calls = 0;
  setenv("CACHALOT_TRACE", in_folder("no/such"), 1);
  setenv("CACHALOT_OOM_DUMP", in_folder("neither"), 1);
  with = open_plain();
  CHECK_EQUAL(log_calls, 2);
  CHECK(strncmp(log_text, "CACHALOT_OOM_DUMP: ", 19) == 0);
  free_block(with, allocate_on(with, 100, 0));
  close_fixture(with);
  unsetenv("CACHALOT_OOM_DUMP");
  setenv("CACHALOT_TRACE_KEEP", "1MiB", 1);
  options.driver = open_sim();
  CHECK_FAILS_WITH(
      cachalot_allocator_create(&options, &none, &last_error), CACHALOT_ERROR_INVALID_ARGUMENT,
      "the environment variable CACHALOT_TRACE_KEEP is \"1MiB\": expected at least 2MiB");
  cachalot_driver_destroy(options.driver);
  unsetenv("CACHALOT_TRACE_KEEP");
  unsetenv("CACHALOT_TRACE");
}

/* ---- Out of memory */

static void run_out_of_memory(fixture with) {
  cachalot_address address = 0;
  CHECK_FAILS(cachalot_allocate(with.allocator, 2048 * MIB, 0, 3, &address, &last_error),
              CACHALOT_ERROR_OUT_OF_MEMORY);
}

static const char* dump_name(int number, const char* what) {
  static char name[64];
  snprintf(name, sizeof name, "oom/%d-%d.%s", (int)getpid(), number, what);
  return in_folder(name);
}

static int is_private(const char* path) {
  struct stat info;
  return stat(path, &info) == 0 && (info.st_mode & 0777) == 0600 && info.st_size > 0;
}

static void remove_dumps(void) {
  static const char* const kParts[] = {"report.json", "events.csv", "trace.csv", "snapshot.pickle"};
  int number, part;
  for (number = 1; number <= 20; number++)
    for (part = 0; part < 4; part++) unlink(dump_name(number, kParts[part]));
}

static void an_out_of_memory_error_leaves_its_report_events_and_blocks(void) {
  fixture with = open_fixture();
  const cachalot_oom_dump_options dump = {
      .struct_size = sizeof dump, .folder = in_folder("oom"), .events = 3};
  const cachalot_address live = allocate_on(with, 12345, 0);
  char json[4096] = "";
  cachalot_trace* trace;
  FILE* file;
  CHECK_OK(cachalot_set_oom_dump(with.allocator, &dump, &last_error));
  free_block(with, allocate_on(with, 600, 0));
  run_out_of_memory(with);
  CHECK(is_private(dump_name(1, "report.json")));
  CHECK(is_private(dump_name(1, "events.csv")));
  CHECK(is_private(dump_name(1, "trace.csv")));
  CHECK(is_private(dump_name(1, "snapshot.pickle")));
  CHECK(access(dump_name(2, "report.json"), F_OK) != 0);
  file = fopen(dump_name(1, "report.json"), "rb");
  CHECK(file != NULL && fread(json, 1, sizeof json - 1, file) > 0);
  fclose(file);
  CHECK(strstr(json, "\"outcome\": \"fails\"") != NULL ||
        strstr(json, "\"outcome\":\"fails\"") != NULL);
  CHECK(strstr(json, "2147483648") != NULL);
  trace = trace_at(dump_name(1, "events.csv"));
  CHECK_EQUAL(count_events(trace, CACHALOT_ACTION_ALLOC), 0); /* older than the last three */
  CHECK_EQUAL(count_events(trace, CACHALOT_ACTION_FREE_COMPLETED), 1);
  CHECK_EQUAL(last_event(trace).action, CACHALOT_ACTION_OOM);
  cachalot_trace_destroy(trace);
  trace = trace_at(dump_name(1, "trace.csv"));
  CHECK_EQUAL(count_events(trace, CACHALOT_ACTION_LIVE_AT_BEGIN), 1);
  CHECK_EQUAL(last_event(trace).address, live);
  CHECK_EQUAL(last_event(trace).size, 12345);
  CHECK_EQUAL(replay_of(trace).allocations, 1);
  cachalot_trace_destroy(trace);
  CHECK_OK(cachalot_set_oom_dump(with.allocator, NULL, &last_error));
  run_out_of_memory(with);
  CHECK(access(dump_name(2, "report.json"), F_OK) != 0);
  free_block(with, live);
  close_fixture(with);
  remove_dumps();
}

static void only_so_many_out_of_memory_errors_leave_files(void) {
  fixture with = open_fixture();
  const cachalot_oom_dump_options dump = {
      .struct_size = sizeof dump, .folder = in_folder("oom"), .events = -1};
  FILE* const taken = fopen(dump_name(1, "report.json"), "w");
  int i;
  fclose(taken);
  CHECK_OK(cachalot_set_oom_dump(with.allocator, &dump, &last_error));
  for (i = 0; i < 20; i++) run_out_of_memory(with);
  CHECK(!is_private(dump_name(1, "report.json"))); /* it was there before, and stays */
  CHECK(is_private(dump_name(17, "report.json")));
  CHECK(is_private(dump_name(17, "trace.csv")));
  CHECK(access(dump_name(17, "events.csv"), F_OK) != 0); /* none are kept */
  CHECK(access(dump_name(18, "report.json"), F_OK) != 0);
  close_fixture(with);
  remove_dumps();
}

static void what_cannot_be_written_at_an_error_is_a_warning(void) {
  fixture with = open_with_log();
  const cachalot_oom_dump_options dump = {.struct_size = sizeof dump, .folder = in_folder("gone")};
  cachalot_oom_dump_options wrong = dump;
  CHECK(mkdir(in_folder("gone"), 0700) == 0);
  CHECK_OK(cachalot_set_oom_dump(with.allocator, &dump, &last_error));
  CHECK(rmdir(in_folder("gone")) == 0);
  run_out_of_memory(with);
  CHECK_EQUAL(log_calls, 1);
  CHECK(strstr(log_text, "No such file or directory") != NULL);
  CHECK_FAILS(cachalot_set_oom_dump(with.allocator, &dump, &last_error), CACHALOT_ERROR_IO);
  wrong.events = -2;
  CHECK_FAILS_WITH(cachalot_set_oom_dump(with.allocator, &wrong, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "events is -2: expected -1 to 10000000");
  close_fixture(with);
}

static void the_environment_names_the_folder_of_out_of_memory_errors(void) {
  fixture with;
  setenv("CACHALOT_OOM_DUMP", in_folder("oom"), 1);
  with = open_plain();
  unsetenv("CACHALOT_OOM_DUMP");
  run_out_of_memory(with);
  CHECK(is_private(dump_name(1, "events.csv")));
  close_fixture(with);
  remove_dumps();
}

int main(void) {
  static const char* const kVariables[] = {"CACHALOT_TRACE", "CACHALOT_TRACE_KEEP",
                                           "CACHALOT_OOM_DUMP", "CACHALOT_RECORD",
                                           "CACHALOT_RUN_FREE"};
  const char* const parent = getenv("TMPDIR");
  char command[128];
  size_t i;
  for (i = 0; i < sizeof kVariables / sizeof *kVariables; i++) unsetenv(kVariables[i]);
  snprintf(folder, sizeof folder, "%.40s/recorder-XXXXXX", parent != NULL ? parent : "/tmp");
  if (mkdtemp(folder) == NULL || mkdir(in_folder("oom"), 0700) != 0) return 1;
  RUN(a_recording_from_the_start_replays_to_the_same_figures);
  RUN(a_recording_begins_with_what_is_live);
  RUN(a_recorder_needs_no_history_and_leaves_it_off);
  RUN(a_function_gets_whole_lines_and_the_end);
  RUN(a_write_that_fails_ends_the_recording_and_no_request);
  RUN(a_full_disk_ends_the_recording_and_no_request);
  RUN(events_tell_the_labels_of_their_threads);
  RUN(events_tell_the_contexts_of_the_history_if_asked);
  RUN(a_trace_tells_a_stack_as_text);
  RUN(a_bounded_recording_goes_on_in_a_next_file);
  RUN(a_recording_is_whole_after_its_process_was_killed);
  RUN(a_forked_child_writes_nothing_into_its_parents_recording);
  RUN(two_recorders_write_the_same_events);
  RUN(an_allocator_that_ends_stops_its_recorders);
  RUN(options_that_do_not_fit_are_refused);
  RUN(the_drivers_pool_has_no_recorder);
  RUN(the_environment_starts_a_recorder_for_each_allocator);
  RUN(the_environment_starts_none_under_the_proxy);
  RUN(an_allocator_goes_on_without_what_the_environment_asks_for);
  RUN(an_out_of_memory_error_leaves_its_report_events_and_blocks);
  RUN(only_so_many_out_of_memory_errors_leave_files);
  RUN(what_cannot_be_written_at_an_error_is_a_warning);
  RUN(the_environment_names_the_folder_of_out_of_memory_errors);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  if (system(command) != 0) return 1;
  return report();
}
