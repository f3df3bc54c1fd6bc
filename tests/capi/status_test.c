/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Versions and the list of statuses. */
#include "check.h"

static void library_and_header_are_of_one_version(void) {
  CHECK_TEXT(cachalot_version(), CACHALOT_VERSION_STRING);
  CHECK_EQUAL(cachalot_version_number(), CACHALOT_VERSION_NUMBER);
}

static void every_row_of_the_list_has_its_name_and_a_sentence(void) {
  size_t i;
  int32_t before = -1;
  CHECK_EQUAL(cachalot_status_count(), 11);
  for (i = 0; i < cachalot_status_count(); i++) {
    cachalot_status_description row = {.struct_size = sizeof(cachalot_status_description)};
    CHECK_EQUAL(cachalot_status_at(i, &row), CACHALOT_OK);
    CHECK(row.status > before);
    CHECK_TEXT(row.name, cachalot_status_name(row.status));
    CHECK(strlen(row.text) > 5 && row.text[strlen(row.text) - 1] == '.');
    CHECK_EQUAL(row.struct_size, sizeof row);
    before = row.status;
  }
}

static void names_are_those_of_the_constants(void) {
  CHECK_TEXT(cachalot_status_name(CACHALOT_OK), "OK");
  CHECK_TEXT(cachalot_status_name(CACHALOT_ERROR_INVALID_ARGUMENT), "INVALID_ARGUMENT");
  CHECK_TEXT(cachalot_status_name(CACHALOT_ERROR_OUT_OF_MEMORY), "OUT_OF_MEMORY");
  CHECK_TEXT(cachalot_status_name(CACHALOT_ERROR_INTERNAL), "INTERNAL");
}

static void a_number_that_is_no_status_is_unknown(void) {
  CHECK_TEXT(cachalot_status_name(4), "UNKNOWN");
  CHECK_TEXT(cachalot_status_name(-1), "UNKNOWN");
  CHECK_TEXT(cachalot_status_name(CACHALOT_STATUS_FORCE_INT32), "UNKNOWN");
}

static void past_the_last_row_there_is_nothing(void) {
  cachalot_status_description row = {.struct_size = sizeof(cachalot_status_description),
                                     .status = 77};
  CHECK_EQUAL(cachalot_status_at(cachalot_status_count(), &row), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_status_at(SIZE_MAX, &row), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_status_at(0, NULL), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(row.status, 77);
}

static void a_row_without_a_size_is_refused(void) {
  cachalot_status_description row = {0};
  CHECK_EQUAL(cachalot_status_at(0, &row), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK(row.name == NULL);
}

int main(void) {
  RUN(library_and_header_are_of_one_version);
  RUN(every_row_of_the_list_has_its_name_and_a_sentence);
  RUN(names_are_those_of_the_constants);
  RUN(a_number_that_is_no_status_is_unknown);
  RUN(past_the_last_row_there_is_nothing);
  RUN(a_row_without_a_size_is_refused);
  return report();
}
