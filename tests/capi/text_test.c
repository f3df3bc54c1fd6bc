/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions of cachalot/text.h give what those without `_dup` write, and leave nothing allocated. */
#include <stdlib.h>

static int live_texts = 0;
static int malloc_fails = 0;

static void* counted_malloc(size_t size) {
  void* const memory = malloc_fails ? NULL : malloc(size);
  if (memory != NULL) live_texts++;
  return memory;
}

static void counted_free(void* memory) {
  if (memory != NULL) live_texts--;
  free(memory);
}

#define malloc counted_malloc
#define free counted_free
#include "cachalot/text.h"
#undef malloc
#undef free

#include "check.h"

static char expected[65536];

/* What a function without `_dup` writes. */
#define EXPECT(function, ...) \
  CHECK_OK(function(__VA_ARGS__, expected, sizeof expected, NULL, &last_error))

static void check_given(char* text) {
  CHECK_TEXT(text, expected);
  counted_free(text);
  CHECK_EQUAL(live_texts, 0);
}

static void texts_of_an_allocator_come_whole(void) {
  const fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 3 * MIB, 0);
  char* text = NULL;
  CHECK_OK(cachalot_configure(with.allocator, "max_split_size_mb:64", &last_error));

  EXPECT(cachalot_memory_summary, with.allocator, 0, 1);
  CHECK_OK(cachalot_memory_summary_dup(with.allocator, 0, 1, &text, &last_error));
  check_given(text);
  EXPECT(cachalot_metrics_text, with.allocator);
  CHECK_OK(cachalot_metrics_text_dup(with.allocator, &text, &last_error));
  check_given(text);
  EXPECT(cachalot_get_config, with.allocator);
  CHECK_TEXT(expected, "max_split_size_mb:64");
  CHECK_OK(cachalot_get_config_dup(with.allocator, &text, &last_error));
  check_given(text);
  free_block(with, block);
  close_fixture(with);
}

static void an_empty_text_is_a_text(void) {
  const fixture with = open_fixture();
  char* text = NULL;
  expected[0] = '\0';
  CHECK_OK(cachalot_get_reserve_class_dup(with.allocator, 0, &text, &last_error));
  check_given(text);
  close_fixture(with);
}

static void texts_of_a_report_come_whole(void) {
  const fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 3 * MIB, 0);
  cachalot_report* report = NULL;
  char* text = NULL;
  CHECK_OK(cachalot_report_create(with.allocator, NULL, &report, &last_error));
  EXPECT(cachalot_report_text, report);
  CHECK_OK(cachalot_report_text_dup(report, &text, &last_error));
  check_given(text);
  EXPECT(cachalot_report_json, report);
  CHECK_OK(cachalot_report_json_dup(report, &text, &last_error));
  check_given(text);
  cachalot_report_destroy(report);
  free_block(with, block);
  close_fixture(with);
}

/* A text that is longer each time, until it has 5 characters. */
static size_t growing_text(void* user_data, uint64_t context, char* buffer, size_t capacity) {
  size_t* const length = user_data;
  (void)context;
  if (*length < 5) ++*length;
  snprintf(buffer, capacity, "%.*s", (int)*length, "abcde");
  return *length;
}

static fixture open_with_context_text(size_t* length) {
  cachalot_allocator_options options = {0};
  options.context_text = growing_text;
  options.context_user_data = length;
  return open_with(options);
}

static void a_text_that_grows_between_two_calls_comes_whole(void) {
  size_t length = 0;
  const fixture with = open_with_context_text(&length);
  char* text = NULL;
  CHECK_OK(cachalot_context_text_dup(with.allocator, 7, &text, &last_error));
  snprintf(expected, sizeof expected, "abcde");
  check_given(text);
  CHECK_EQUAL(length, 5);
  close_fixture(with);
}

static void a_call_that_fails_gives_no_text(void) {
  const fixture with = open_fixture();
  char* text = (char*)expected;
  CHECK_FAILS(cachalot_memory_summary_dup(with.allocator, 99, 0, &text, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_recorder_path_dup(with.allocator, 1, &text, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_shared_block_ticket_dup(NULL, &text, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_trace_context_text_dup(NULL, 1, &text), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK(text == expected);
  CHECK_EQUAL(live_texts, 0);
  close_fixture(with);
}

static void a_place_that_is_NULL_and_malloc_that_fails_are_errors(void) {
  const fixture with = open_fixture();
  char* text = (char*)expected;
  CHECK_FAILS_WITH(cachalot_metrics_text_dup(with.allocator, NULL, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "out_text is NULL");
  malloc_fails = 1;
  CHECK_FAILS_WITH(cachalot_metrics_text_dup(with.allocator, &text, &last_error),
                   CACHALOT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
  CHECK_EQUAL(cachalot_metrics_text_dup(with.allocator, &text, NULL),
              CACHALOT_ERROR_OUT_OF_HOST_MEMORY);
  malloc_fails = 0;
  CHECK(text == expected);
  CHECK_EQUAL(live_texts, 0);
  close_fixture(with);
}

/* Of an older caller, which has less room for the message. */
static void an_error_is_filled_as_far_as_its_struct_size_says(void) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  memset(error.message, '#', 16);
  error.struct_size = offsetof(cachalot_error, message) + 9;
  CHECK_EQUAL(cachalot_metrics_text_dup(NULL, NULL, &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(error.status, CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_TEXT(error.message, "out_text");
  CHECK(error.message[9] == '#');
}

int main(void) {
  RUN(texts_of_an_allocator_come_whole);
  RUN(an_empty_text_is_a_text);
  RUN(texts_of_a_report_come_whole);
  RUN(a_text_that_grows_between_two_calls_comes_whole);
  RUN(a_call_that_fails_gives_no_text);
  RUN(a_place_that_is_NULL_and_malloc_that_fails_are_errors);
  RUN(an_error_is_filled_as_far_as_its_struct_size_says);
  return report();
}
