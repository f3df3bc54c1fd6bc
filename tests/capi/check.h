/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The little that the C tests need: checks that count and print what failed, and an allocator over
 * a simulated device. A test is a function whose name is a claim.
 */
#ifndef CACHALOT_TESTS_CAPI_CHECK_H_
#define CACHALOT_TESTS_CAPI_CHECK_H_

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cachalot/cachalot.h"

static const char* current_test = "";
static int failed_checks = 0;

static inline void check_true(int holds, const char* what, int line) {
  if (holds) return;
  failed_checks++;
  printf("line %d, %s: %s does not hold\n", line, current_test, what);
}

static inline void check_equal(int64_t actual, int64_t expected, const char* what, int line) {
  if (actual == expected) return;
  failed_checks++;
  printf("line %d, %s: %s is %" PRId64 ", expected %" PRId64 "\n", line, current_test, what, actual,
         expected);
}

static inline void check_text(const char* actual, const char* expected, const char* what,
                              int line) {
  if (actual != NULL && strcmp(actual, expected) == 0) return;
  failed_checks++;
  printf("line %d, %s: %s is \"%s\", expected \"%s\"\n", line, current_test, what,
         actual != NULL ? actual : "NULL", expected);
}

static inline const char* name_of(cachalot_status status) {
  return cachalot_status_name((int32_t)status);
}

static cachalot_error last_error = CACHALOT_ERROR_INIT;

/* The status is also in the record, and a failure says something. */
static inline void check_failure(cachalot_status status, cachalot_status expected, const char* what,
                                 int line) {
  if (status == expected && last_error.status == (int32_t)expected && last_error.message[0] != '\0')
    return;
  failed_checks++;
  printf("line %d, %s: %s is %s (\"%s\"), expected %s\n", line, current_test, what, name_of(status),
         last_error.message, name_of(expected));
}

static inline void check_ok(cachalot_status status, const char* what, int line) {
  if (status == CACHALOT_OK) return;
  failed_checks++;
  printf("line %d, %s: %s is %s (\"%s\")\n", line, current_test, what, name_of(status),
         last_error.message);
}

#define CHECK(condition) check_true((condition) ? 1 : 0, #condition, __LINE__)
#define CHECK_EQUAL(actual, expected) \
  check_equal((int64_t)(actual), (int64_t)(expected), #actual, __LINE__)
#define CHECK_TEXT(actual, expected) check_text(actual, expected, #actual, __LINE__)
/* For calls that get &last_error. */
#define CHECK_OK(call) check_ok(call, #call, __LINE__)
#define CHECK_FAILS(call, expected)                     \
  (last_error.status = 0, last_error.message[0] = '\0', \
   check_failure(call, expected, #call, __LINE__))
#define CHECK_FAILS_WITH(call, expected, text) \
  (CHECK_FAILS(call, expected), CHECK_TEXT(last_error.message, text))

#define RUN(test) (current_test = #test, test())

/* To be returned by main. */
static inline int report(void) {
  if (failed_checks > 0) printf("%d checks failed\n", failed_checks);
  return failed_checks > 0;
}

#define MIB ((uint64_t)1 << 20)
#define FIRST_ADDRESS UINT64_C(0x700000000000)

/* A simulated driver of two devices with 1 GiB each, and an allocator over it. */
typedef struct fixture {
  cachalot_driver* driver;
  cachalot_allocator* allocator;
} fixture;

static inline cachalot_driver* open_sim(void) {
  cachalot_sim_options options = {.struct_size = sizeof(cachalot_sim_options)};
  cachalot_driver* driver = NULL;
  options.capacity = 1024 * MIB;
  options.device_count = 2;
  CHECK_OK(cachalot_sim_create(&options, &driver, &last_error));
  return driver;
}

/* The options get the driver; a config of NULL becomes "". */
static inline fixture open_with(cachalot_allocator_options options) {
  fixture opened = {NULL, NULL};
  opened.driver = open_sim();
  options.struct_size = sizeof options;
  options.driver = opened.driver;
  if (options.config == NULL) options.config = "";
  CHECK_OK(cachalot_allocator_create(&options, &opened.allocator, &last_error));
  return opened;
}

static inline fixture open_fixture(void) {
  cachalot_allocator_options options = {0};
  options.release = CACHALOT_RELEASE_2_15;
  return open_with(options);
}

static inline fixture open_old_fixture(void) {
  cachalot_allocator_options options = {0};
  options.release = CACHALOT_RELEASE_2_11;
  return open_with(options);
}

/* The auditor finds nothing, and all blocks were freed. */
static inline void close_fixture(fixture opened) {
  CHECK_OK(cachalot_check(opened.allocator, &last_error));
  CHECK_OK(cachalot_allocator_destroy(opened.allocator, &last_error));
  cachalot_driver_destroy(opened.driver);
}

static inline cachalot_address allocate_on(fixture opened, uint64_t size, cachalot_stream stream) {
  cachalot_address address = 0;
  CHECK_OK(cachalot_allocate(opened.allocator, size, 0, stream, &address, &last_error));
  return address;
}

static inline void free_block(fixture opened, cachalot_address address) {
  CHECK_OK(cachalot_free(opened.allocator, address, &last_error));
}

#endif /* CACHALOT_TESTS_CAPI_CHECK_H_ */
