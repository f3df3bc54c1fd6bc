/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Snapshots as pickles, and those of replays. What Python makes of them is in tests/convert and in the tests of
 * bindings/python. */
#include <stdlib.h>

#include "check.h"

/* Bytes in memory, and in how many calls they came; fails after so many. */
typedef struct pickle_bytes {
  char* data;
  size_t size;
  size_t largest;
  int calls;
  int calls_until_failure;
} pickle_bytes;

static int32_t add_bytes(void* user_data, const void* data, size_t size) {
  pickle_bytes* bytes = user_data;
  if (bytes->calls_until_failure-- == 0) return 7;
  bytes->data = realloc(bytes->data, bytes->size + size);
  memcpy(bytes->data + bytes->size, data, size);
  bytes->size += size;
  bytes->calls++;
  if (size > bytes->largest) bytes->largest = size;
  return 0;
}

static pickle_bytes pickle_of(const cachalot_snapshot* snapshot, cachalot_allocator* allocator) {
  pickle_bytes bytes = {NULL, 0, 0, 0, -1};
  CHECK_OK(cachalot_snapshot_write_pickle(snapshot, allocator, add_bytes, &bytes, &last_error));
  return bytes;
}

static int has_text(pickle_bytes bytes, const char* text) {
  const size_t length = strlen(text);
  for (size_t i = 0; i + length <= bytes.size; i++)
    if (memcmp(bytes.data + i, text, length) == 0) return 1;
  return 0;
}

static cachalot_snapshot* take(fixture with) {
  cachalot_snapshot* snapshot = NULL;
  CHECK_OK(cachalot_snapshot_take(with.allocator, NULL, &snapshot, &last_error));
  return snapshot;
}

static fixture open_with_labels(int32_t release) {
  const cachalot_allocator_options options = {.context_source = CACHALOT_CONTEXT_LABELS,
                                              .release = release};
  const cachalot_history_options history = {.struct_size = sizeof history,
                                            .enabled = 1,
                                            .context = CACHALOT_CONTEXT_LEVEL_ALL,
                                            .max_entries = 100000};
  const fixture with = open_with(options);
  CHECK_OK(cachalot_record_history(with.allocator, &history, &last_error));
  return with;
}

static void labels_are_frames(void) {
  const fixture with = open_with_labels(0);
  cachalot_snapshot* snapshot = NULL;
  pickle_bytes bytes;
  cachalot_address address;
  CHECK_OK(cachalot_label_push("model-a", &last_error));
  CHECK_OK(cachalot_label_push("server.go:17:Serve", &last_error));
  address = allocate_on(with, 1000, 0x10);
  CHECK_OK(cachalot_label_pop(&last_error));
  CHECK_OK(cachalot_label_pop(&last_error));
  snapshot = take(with);
  bytes = pickle_of(snapshot, with.allocator);
  CHECK(bytes.size > 4 && memcmp(bytes.data, "\x80\x04}(", 4) == 0);
  CHECK(bytes.data[bytes.size - 1] == '.');
  CHECK(has_text(bytes, "model-a") && has_text(bytes, "server.go") && has_text(bytes, "Serve"));
  CHECK(has_text(bytes, "active_allocated") && has_text(bytes, "pool_id"));
  free(bytes.data);
  bytes = pickle_of(snapshot, NULL); /* nothing explains contexts */
  CHECK(!has_text(bytes, "Serve") && has_text(bytes, "active_allocated"));
  free(bytes.data);
  cachalot_snapshot_destroy(snapshot);
  free_block(with, address);
  close_fixture(with);
}

static void keys_are_those_of_the_release(void) {
  const fixture with = open_with_labels(CACHALOT_RELEASE_2_11);
  cachalot_snapshot* snapshot = NULL;
  pickle_bytes bytes;
  free_block(with, allocate_on(with, 1000, 0));
  snapshot = take(with);
  bytes = pickle_of(snapshot, with.allocator);
  CHECK(!has_text(bytes, "\x07pool_id") && has_text(bytes, "segment_pool_id"));
  free(bytes.data);
  cachalot_snapshot_destroy(snapshot);
  close_fixture(with);
}

static void a_large_snapshot_comes_in_pieces(void) {
  const fixture with = open_with_labels(0);
  cachalot_snapshot* snapshot = NULL;
  pickle_bytes bytes;
  for (int i = 0; i < 10000; i++) free_block(with, allocate_on(with, 1000, 0));
  snapshot = take(with);
  bytes = pickle_of(snapshot, NULL);
  CHECK(bytes.calls > 10);
  CHECK(bytes.largest < 70000);
  free(bytes.data);
  cachalot_snapshot_destroy(snapshot);
  close_fixture(with);
}

static void a_failure_to_write_is_told(void) {
  const fixture with = open_fixture();
  cachalot_snapshot* const snapshot = take(with);
  pickle_bytes bytes = {NULL, 0, 0, 0, 0};
  CHECK_FAILS_WITH(
      cachalot_snapshot_write_pickle(snapshot, with.allocator, add_bytes, &bytes, &last_error),
      CACHALOT_ERROR_CALLBACK, "the write function returned 7");
  cachalot_snapshot_destroy(snapshot);
  close_fixture(with);
}

static int64_t read_text(void* user_data, void* buffer, size_t capacity) {
  const char** text = user_data;
  const size_t left = strlen(*text);
  const size_t count = left < capacity ? left : capacity;
  memcpy(buffer, *text, count);
  *text += count;
  return (int64_t)count;
}

static cachalot_replay* replay_of(const char* text, int32_t history, int32_t expect) {
  const cachalot_replay_options options = {
      .struct_size = sizeof options, .history = history, .expect = expect};
  cachalot_trace* trace = NULL;
  cachalot_replay* replay = NULL;
  CHECK_OK(cachalot_trace_read(read_text, &text, &trace, &last_error));
  CHECK_OK(cachalot_replay_run(trace, &options, &replay, &last_error));
  cachalot_trace_destroy(trace);
  return replay;
}

static const char* const kProgram =
    "# {\"format\": 2}\n"
    "# label 7 f\\ng\n"
    "b,900,64,0\n"
    "a,10000000,512,a0,0,,123,7\n"
    "q,10000000,512,a0,0,,456,8\n"
    "c,10000000,512,a0\n";

static void a_replay_has_the_recorded_times_and_contexts(void) {
  cachalot_replay* const replay = replay_of(kProgram, 1, 0);
  cachalot_snapshot* snapshot = NULL;
  pickle_bytes bytes;
  cachalot_trace_entry entry = {.struct_size = sizeof entry};
  CHECK_OK(cachalot_replay_snapshot(replay, &snapshot, &last_error));
  cachalot_replay_destroy(replay); /* A snapshot outlives it. */
  CHECK_EQUAL(cachalot_snapshot_entry_count(snapshot, 0), 6);
  CHECK_OK(cachalot_snapshot_entry(snapshot, 0, 3, &entry));
  CHECK(entry.action == CACHALOT_ACTION_ALLOC && entry.stream == 0xa0);
  CHECK(entry.time_us == 123 && entry.context == 7);
  CHECK_OK(cachalot_snapshot_entry(snapshot, 0, 4, &entry));
  CHECK(entry.action == CACHALOT_ACTION_FREE_REQUESTED);
  CHECK(entry.time_us == 456 && entry.context == 8);
  bytes = pickle_of(snapshot, NULL); /* a replay's contexts need no allocator */
  CHECK(has_text(bytes,
                 "\x01"
                 "f\x94") &&
        has_text(bytes,
                 "\x01"
                 "g\x94"));
  free(bytes.data);
  cachalot_snapshot_destroy(snapshot);
}

static void an_exact_replay_has_the_recorded_history(void) {
  cachalot_replay* const replay = replay_of(
      "# {\"torch\": \"2.11.0\", \"warm_up\": 0}\n"
      "S,10000000,2097152,a0,0,,1\n"
      "a,10000000,512,a0,0,,2,7\n"
      "s,0,512,0,0,,3\n"
      "q,10000000,512,a0,0,,4,8\n"
      "c,10000000,512,a0,0,,5,9\n",
      1, 1);
  cachalot_snapshot* snapshot = NULL;
  cachalot_trace_entry entry = {.struct_size = sizeof entry};
  CHECK_OK(cachalot_replay_snapshot(replay, &snapshot, &last_error));
  CHECK_EQUAL(cachalot_snapshot_entry_count(snapshot, 0), 5);
  for (size_t i = 0; i < 5; i++) {
    CHECK_OK(cachalot_snapshot_entry(snapshot, 0, i, &entry));
    CHECK_EQUAL(entry.time_us, i + 1);
  }
  CHECK(entry.action == CACHALOT_ACTION_FREE_COMPLETED && entry.context == 9);
  CHECK(entry.address == 0x10000000);
  cachalot_snapshot_destroy(snapshot);
  cachalot_replay_destroy(replay);
}

static void a_replay_without_history_has_no_snapshot(void) {
  cachalot_replay* const replay = replay_of(kProgram, 0, 0);
  cachalot_snapshot* snapshot = NULL;
  CHECK_FAILS_WITH(cachalot_replay_snapshot(replay, &snapshot, &last_error),
                   CACHALOT_ERROR_INVALID_STATE, "the replay has kept no history");
  CHECK(snapshot == NULL);
  cachalot_replay_destroy(replay);
}

static void nothing_is_an_invalid_argument(void) {
  const fixture with = open_fixture();
  cachalot_snapshot* snapshot = take(with);
  CHECK_FAILS(cachalot_snapshot_write_pickle(NULL, NULL, add_bytes, NULL, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_snapshot_write_pickle(snapshot, NULL, NULL, NULL, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_replay_snapshot(NULL, &snapshot, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  cachalot_snapshot_destroy(snapshot);
  close_fixture(with);
}

int main(void) {
  RUN(labels_are_frames);
  RUN(keys_are_those_of_the_release);
  RUN(a_large_snapshot_comes_in_pieces);
  RUN(a_failure_to_write_is_told);
  RUN(a_replay_has_the_recorded_times_and_contexts);
  RUN(an_exact_replay_has_the_recorded_history);
  RUN(a_replay_without_history_has_no_snapshot);
  RUN(nothing_is_an_invalid_argument);
  return report();
}
