/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* History, contexts, labels, and what observers see; when their user data is given back. */
#include "check.h"

static cachalot_history_options recording(int32_t context) {
  cachalot_history_options options = {.struct_size = sizeof(cachalot_history_options)};
  options.enabled = 1;
  options.context = context;
  options.max_entries = 100;
  return options;
}

/* The history of device 0 as names of actions with commas between. */
static const char* history_of(fixture with) {
  static char names[512];
  const cachalot_snapshot_options options = {.struct_size = sizeof(cachalot_snapshot_options)};
  cachalot_snapshot* snapshot = NULL;
  size_t i;
  names[0] = '\0';
  CHECK_OK(cachalot_snapshot_take(with.allocator, &options, &snapshot, &last_error));
  for (i = 0; i < cachalot_snapshot_entry_count(snapshot, 0); i++) {
    cachalot_trace_entry entry = {.struct_size = sizeof(cachalot_trace_entry)};
    CHECK_EQUAL(cachalot_snapshot_entry(snapshot, 0, i, &entry), CACHALOT_OK);
    if (i > 0) strncat(names, ",", 2);
    strncat(names, cachalot_action_name(entry.action), 32);
  }
  cachalot_snapshot_destroy(snapshot);
  return names;
}

static void actions_have_the_names_of_the_reference(void) {
  CHECK_TEXT(cachalot_action_name(CACHALOT_ACTION_ALLOC), "alloc");
  CHECK_TEXT(cachalot_action_name(CACHALOT_ACTION_FREE_REQUESTED), "free_requested");
  CHECK_TEXT(cachalot_action_name(CACHALOT_ACTION_FREE_COMPLETED), "free_completed");
  CHECK_TEXT(cachalot_action_name(CACHALOT_ACTION_SEGMENT_ALLOC), "segment_alloc");
  CHECK_TEXT(cachalot_action_name(CACHALOT_ACTION_SEGMENT_FREE), "segment_free");
  CHECK_TEXT(cachalot_action_name(CACHALOT_ACTION_SEGMENT_MAP), "segment_map");
  CHECK_TEXT(cachalot_action_name(CACHALOT_ACTION_SEGMENT_UNMAP), "segment_unmap");
  CHECK_TEXT(cachalot_action_name(CACHALOT_ACTION_SNAPSHOT), "snapshot");
  CHECK_TEXT(cachalot_action_name(CACHALOT_ACTION_OOM), "oom");
  CHECK_TEXT(cachalot_action_name(CACHALOT_ACTION_ANNOTATE), "annotate");
  CHECK_TEXT(cachalot_action_name(CACHALOT_ACTION_RECORDING_END), "recording_end");
  CHECK_TEXT(cachalot_action_name(CACHALOT_ACTION_RECORDING_END + 1), "unknown");
  CHECK_TEXT(cachalot_action_name(-1), "unknown");
}

static void what_happens_is_recorded_once_it_is_asked_for(void) {
  fixture with = open_fixture();
  cachalot_history_options options = recording(CACHALOT_CONTEXT_LEVEL_NEVER);
  free_block(with, allocate_on(with, 512, 0));
  CHECK_TEXT(history_of(with), "");
  CHECK_OK(cachalot_record_history(with.allocator, &options, &last_error));
  free_block(with, allocate_on(with, 512, 0));
  CHECK_OK(cachalot_empty_cache(with.allocator, &last_error));
  CHECK_TEXT(history_of(with), "alloc,free_requested,free_completed,segment_free");
  options.enabled = 0;
  CHECK_OK(cachalot_record_history(with.allocator, &options, &last_error));
  CHECK_TEXT(history_of(with), "");
  close_fixture(with);
}

static void actions_can_be_left_out(void) {
  fixture with = open_fixture();
  cachalot_history_options options = recording(CACHALOT_CONTEXT_LEVEL_NEVER);
  options.skip_actions = "free_requested,segment_alloc";
  CHECK_OK(cachalot_record_history(with.allocator, &options, &last_error));
  free_block(with, allocate_on(with, 512, 0));
  CHECK_TEXT(history_of(with), "alloc,free_completed");
  options.skip_actions = "";
  CHECK_OK(cachalot_record_history(with.allocator, &options, &last_error));
  options.skip_actions = "alloc,";
  CHECK_FAILS_WITH(cachalot_record_history(with.allocator, &options, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "skip_actions has an empty name");
  options.skip_actions = ",alloc";
  CHECK_FAILS(cachalot_record_history(with.allocator, &options, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  options.skip_actions = "no_such_action";
  CHECK_FAILS(cachalot_record_history(with.allocator, &options, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK(strstr(last_error.message, "no_such_action") != NULL);
  close_fixture(with);
}

static void numbers_that_mean_nothing_are_refused_by_name(void) {
  fixture with = open_fixture();
  cachalot_history_options options = recording(4);
  CHECK_FAILS_WITH(cachalot_record_history(with.allocator, &options, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "context is 4: expected 0 to 3");
  options = recording(0);
  options.enabled = 2;
  CHECK_FAILS_WITH(cachalot_record_history(with.allocator, &options, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "enabled is 2: expected 0 to 1");
  options.enabled = 1;
  options.clear = -1;
  CHECK_FAILS_WITH(cachalot_record_history(with.allocator, &options, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "clear is -1: expected 0 to 1");
  options.struct_size = 8;
  CHECK_FAILS(cachalot_record_history(with.allocator, &options, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_TEXT(history_of(with), "");
  close_fixture(with);
}

static uint64_t give_number(void* user_data) { return ++*(uint64_t*)user_data; }

static size_t explain_number(void* user_data, uint64_t context, char* buffer, size_t capacity) {
  (void)user_data;
  return (size_t)snprintf(buffer, capacity, "frame %d\nmain", (int)context);
}

static void contexts_come_from_the_caller_and_go_back_to_it_for_their_text(void) {
  uint64_t last_context = 0;
  cachalot_allocator_options made = {.context_capture = give_number,
                                     .context_text = explain_number};
  const cachalot_history_options options = recording(CACHALOT_CONTEXT_LEVEL_ALL);
  cachalot_address block;
  uint64_t context = 0;
  char text[64] = "";
  size_t length = 0;
  fixture with;
  made.context_user_data = &last_context;
  made.release = CACHALOT_RELEASE_2_15;
  with = open_with(made);
  CHECK_OK(cachalot_record_history(with.allocator, &options, &last_error));
  block = allocate_on(with, 512, 0);
  CHECK_OK(cachalot_context_of(with.allocator, block, &context, &last_error));
  CHECK_EQUAL(context, last_context);
  CHECK(context > 0);
  CHECK_OK(cachalot_context_text(with.allocator, 7, text, sizeof text, &length, &last_error));
  CHECK_TEXT(text, "frame 7\nmain");
  CHECK_EQUAL(length, strlen(text));
  CHECK_OK(cachalot_context_text(with.allocator, 0, text, sizeof text, &length, &last_error));
  CHECK_TEXT(text, "");
  free_block(with, block);
  CHECK_OK(cachalot_context_of(with.allocator, block, &context, &last_error));
  CHECK_EQUAL(context, 0);
  close_fixture(with);
}

static void without_a_source_there_are_no_contexts(void) {
  fixture with = open_fixture();
  const cachalot_history_options options = recording(CACHALOT_CONTEXT_LEVEL_ALL);
  cachalot_address block;
  uint64_t context = 5;
  char text[8] = "old";
  size_t length = 3;
  CHECK_OK(cachalot_record_history(with.allocator, &options, &last_error));
  block = allocate_on(with, 512, 0);
  CHECK_OK(cachalot_context_of(with.allocator, block, &context, &last_error));
  CHECK_EQUAL(context, 0);
  CHECK_OK(cachalot_context_text(with.allocator, 5, text, sizeof text, &length, &last_error));
  CHECK(text[0] == '\0' && length == 0);
  free_block(with, block);
  close_fixture(with);
}

static void labels_can_be_the_contexts(void) {
  cachalot_allocator_options made = {.context_source = CACHALOT_CONTEXT_LABELS};
  fixture with = open_with(made);
  const cachalot_history_options options = recording(CACHALOT_CONTEXT_LEVEL_STATE);
  cachalot_address block;
  uint64_t context = 0;
  char text[64] = "";
  CHECK_OK(cachalot_record_history(with.allocator, &options, &last_error));
  CHECK_OK(cachalot_label_push("model-a", &last_error));
  CHECK_OK(cachalot_label_push("kv-cache", &last_error));
  block = allocate_on(with, 512, 0);
  CHECK_OK(cachalot_label_pop(&last_error));
  CHECK_OK(cachalot_label_pop(&last_error));
  CHECK_OK(cachalot_context_of(with.allocator, block, &context, &last_error));
  CHECK_OK(cachalot_context_text(with.allocator, context, text, sizeof text, NULL, &last_error));
  CHECK(strstr(text, "kv-cache") != NULL);
  free_block(with, block);
  close_fixture(with);
}

static void labels_are_not_empty_and_end_only_once(void) {
  CHECK_FAILS_WITH(cachalot_label_push("", &last_error), CACHALOT_ERROR_INVALID_ARGUMENT,
                   "label is empty");
  CHECK_FAILS_WITH(cachalot_label_push(NULL, &last_error), CACHALOT_ERROR_INVALID_ARGUMENT,
                   "label is NULL");
  CHECK_FAILS_WITH(cachalot_label_pop(&last_error), CACHALOT_ERROR_INVALID_STATE,
                   "this thread has no label");
  CHECK_OK(cachalot_label_push("one", &last_error));
  CHECK_OK(cachalot_label_pop(&last_error));
  CHECK_FAILS(cachalot_label_pop(&last_error), CACHALOT_ERROR_INVALID_STATE);
}

static void the_older_release_has_neither_contexts_of_blocks_nor_annotations(void) {
  fixture with = open_old_fixture();
  const cachalot_address block = allocate_on(with, 512, 0);
  uint64_t context = 5;
  CHECK_FAILS(cachalot_context_of(with.allocator, block, &context, &last_error),
              CACHALOT_ERROR_NOT_SUPPORTED);
  CHECK_FAILS(cachalot_annotate(with.allocator, block, "text", &last_error),
              CACHALOT_ERROR_NOT_SUPPORTED);
  CHECK_EQUAL(context, 5);
  free_block(with, block);
  close_fixture(with);
}

/* What an observer saw, and how often its user data was given back. */
typedef struct observed {
  int calls;
  int destroyed;
  int32_t action;
  uint64_t size;
  char metadata[32];
} observed;

static void count_destroy(void* user_data) { ((observed*)user_data)->destroyed++; }

static void observe_entry(void* user_data, const cachalot_trace_entry* entry) {
  observed* const seen = user_data;
  seen->calls++;
  seen->action = entry->action;
  seen->size = entry->size;
  snprintf(seen->metadata, sizeof seen->metadata, "%s", entry->metadata);
  CHECK_EQUAL(entry->struct_size, sizeof *entry);
  CHECK(entry->internal_metadata != NULL);
}

static void observe_out_of_memory(void* user_data, const cachalot_out_of_memory* numbers) {
  observed* const seen = user_data;
  seen->calls++;
  seen->size = numbers->requested;
  CHECK_EQUAL(numbers->struct_size, sizeof *numbers);
}

static void observe_rejection(void* user_data, const cachalot_rejection* numbers) {
  observed* const seen = user_data;
  seen->calls++;
  seen->size = numbers->segment_size;
  CHECK_EQUAL(numbers->struct_size, sizeof *numbers);
}

static int32_t free_nothing(void* user_data, int32_t device, uint64_t size) {
  observed* const seen = user_data;
  seen->calls++;
  seen->size = size;
  CHECK_EQUAL(device, 0);
  return 0;
}

static void an_observer_sees_events_until_it_is_detached(void) {
  fixture with = open_fixture();
  observed seen = {0};
  cachalot_address block;
  uint64_t id = 0;
  CHECK_OK(cachalot_observe_trace(with.allocator, observe_entry, &seen, count_destroy, &id,
                                  &last_error));
  block = allocate_on(with, 1000, 0);
  CHECK_EQUAL(seen.action, CACHALOT_ACTION_ALLOC);
  CHECK_EQUAL(seen.size, 1000);
  CHECK_EQUAL(seen.calls, 2);
  CHECK_OK(cachalot_set_metadata("step 5", &last_error));
  free_block(with, block);
  CHECK_OK(cachalot_set_metadata(NULL, &last_error));
  CHECK_TEXT(seen.metadata, "step 5");
  CHECK_OK(cachalot_detach(with.allocator, id, &last_error));
  CHECK_EQUAL(seen.destroyed, 1);
  seen.calls = 0;
  free_block(with, allocate_on(with, 512, 0));
  CHECK_EQUAL(seen.calls, 0);
  CHECK_FAILS(cachalot_detach(with.allocator, id, &last_error), CACHALOT_ERROR_INVALID_ARGUMENT);
  close_fixture(with);
  CHECK_EQUAL(seen.destroyed, 1);
}

static void an_annotation_is_an_event_with_its_text(void) {
  fixture with = open_fixture();
  observed seen = {0};
  const cachalot_address block = allocate_on(with, 1000, 0);
  CHECK_OK(cachalot_observe_trace(with.allocator, observe_entry, &seen, count_destroy, NULL,
                                  &last_error));
  CHECK_OK(cachalot_annotate(with.allocator, block, "weights", &last_error));
  CHECK_EQUAL(seen.action, CACHALOT_ACTION_ANNOTATE);
  CHECK_EQUAL(seen.size, 1000);
  CHECK_TEXT(seen.metadata, "weights");
  CHECK_FAILS(cachalot_annotate(with.allocator, block + 512, "weights", &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_annotate(with.allocator, block, NULL, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  free_block(with, block);
  close_fixture(with);
  CHECK_EQUAL(seen.destroyed, 1);
}

static void failures_are_seen_and_callbacks_asked_before(void) {
  fixture with = open_fixture();
  observed out_of_memory = {0};
  observed callback = {0};
  cachalot_address address = 0;
  CHECK_OK(cachalot_observe_out_of_memory(with.allocator, observe_out_of_memory, &out_of_memory,
                                          count_destroy, NULL, &last_error));
  CHECK_OK(cachalot_register_free_memory_callback(with.allocator, free_nothing, &callback,
                                                  count_destroy, NULL, &last_error));
  CHECK_FAILS(cachalot_allocate(with.allocator, 2048 * MIB, 0, 0, &address, &last_error),
              CACHALOT_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(out_of_memory.calls, 1);
  CHECK_EQUAL(out_of_memory.size, 2048 * MIB);
  CHECK(callback.calls > 0);
  close_fixture(with);
  CHECK_EQUAL(out_of_memory.destroyed, 1);
  CHECK_EQUAL(callback.destroyed, 1);
}

static void a_rejection_is_seen(void) {
  cachalot_allocator_options options = {
      .config = "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5"};
  observed seen = {0};
  cachalot_address address = 0;
  fixture with;
  options.release = CACHALOT_RELEASE_2_15;
  with = open_with(options);
  CHECK_OK(cachalot_observe_rejection(with.allocator, observe_rejection, &seen, count_destroy, NULL,
                                      &last_error));
  CHECK_OK(cachalot_set_memory_limit(with.allocator, 0, UINT64_MAX, &last_error));
  CHECK(cachalot_allocate(with.allocator, 600 * MIB, 0, 0, &address, &last_error) != CACHALOT_OK);
  CHECK_EQUAL(seen.calls, 1);
  CHECK_EQUAL(seen.size, 600 * MIB);
  close_fixture(with);
  CHECK_EQUAL(seen.destroyed, 1);
}

static void what_can_not_be_attached_is_given_back_at_once(void) {
  fixture with = open_fixture();
  cachalot_allocator* const allocator = with.allocator;
  observed seen = {0};
  uint64_t id = 77;
  CHECK_FAILS(cachalot_observe_trace(NULL, observe_entry, &seen, count_destroy, &id, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(seen.destroyed, 1);
  CHECK_FAILS(cachalot_observe_trace(allocator, NULL, &seen, count_destroy, &id, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(seen.destroyed, 2);
  CHECK_FAILS(
      cachalot_observe_out_of_memory(allocator, NULL, &seen, count_destroy, &id, &last_error),
      CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(seen.destroyed, 3);
  CHECK_FAILS(cachalot_observe_rejection(allocator, NULL, &seen, count_destroy, &id, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(seen.destroyed, 4);
  CHECK_FAILS(cachalot_register_free_memory_callback(allocator, NULL, &seen, count_destroy, &id,
                                                     &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(seen.destroyed, 5);
  CHECK_FAILS(cachalot_observe_trace(allocator, NULL, NULL, NULL, NULL, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(id, 77);
  close_fixture(with);
  CHECK_EQUAL(seen.destroyed, 5);
}

int main(void) {
  RUN(actions_have_the_names_of_the_reference);
  RUN(what_happens_is_recorded_once_it_is_asked_for);
  RUN(actions_can_be_left_out);
  RUN(numbers_that_mean_nothing_are_refused_by_name);
  RUN(contexts_come_from_the_caller_and_go_back_to_it_for_their_text);
  RUN(without_a_source_there_are_no_contexts);
  RUN(labels_can_be_the_contexts);
  RUN(labels_are_not_empty_and_end_only_once);
  RUN(the_older_release_has_neither_contexts_of_blocks_nor_annotations);
  RUN(an_observer_sees_events_until_it_is_detached);
  RUN(an_annotation_is_an_event_with_its_text);
  RUN(failures_are_seen_and_callbacks_asked_before);
  RUN(a_rejection_is_seen);
  RUN(what_can_not_be_attached_is_given_back_at_once);
  return report();
}
