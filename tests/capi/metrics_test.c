/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * cachalot_metrics_text. With the argument --print it writes the page of a busy allocator instead,
 * for metrics_parse.py.
 */
#include <stdlib.h>

#include "check.h"

/* Labels of all kinds, on the second of two devices, and a private pool. */
static fixture open_busy(void) {
  static const char* const labels[] = {"plain", "quote \" backslash \\ newline \n end", "\xFF",
                                       "\xFE", "\xF0\x9F\x90\x8B {a=\"b\"} 1\r\t"};
  const cachalot_pool_id pool = {0, 7};
  const cachalot_pool_route route = {.struct_size = sizeof(cachalot_pool_route)};
  cachalot_allocator_options options = {0};
  fixture with;
  cachalot_address address = 0;
  size_t i;
  options.release = CACHALOT_RELEASE_2_15;
  options.track_labels = 1;
  with = open_with(options);
  for (i = 0; i < sizeof labels / sizeof labels[0]; i++) {
    CHECK_OK(cachalot_label_push(labels[i], &last_error));
    CHECK_OK(cachalot_allocate(with.allocator, 1000 + i, 1, 0, &address, &last_error));
    CHECK_OK(cachalot_label_pop(&last_error));
  }
  CHECK_OK(cachalot_pool_create(with.allocator, 0, pool, NULL, &last_error));
  CHECK_OK(cachalot_pool_begin(with.allocator, 0, pool, &route, &last_error));
  allocate_on(with, 12 * MIB, 0);
  CHECK_OK(cachalot_pool_end(with.allocator, 0, pool, &last_error));
  free_block(with, allocate_on(with, 20 * MIB, 0));
  CHECK_OK(cachalot_set_memory_limit(with.allocator, 1, 900 * MIB, &last_error));
  CHECK_FAILS(cachalot_allocate(with.allocator, 1020 * MIB, 0, 0, &address, &last_error),
              CACHALOT_ERROR_OUT_OF_MEMORY);
  return with;
}

static void close_busy(fixture with) {
  CHECK_OK(cachalot_allocator_destroy_all(with.allocator, &last_error));
  cachalot_driver_destroy(with.driver);
}

/* The caller frees it. */
static char* page_of(fixture with) {
  size_t length = 0;
  size_t written = 0;
  char* text = NULL;
  CHECK_OK(cachalot_metrics_text(with.allocator, NULL, 0, &length, &last_error));
  text = malloc(length + 1);
  CHECK_OK(cachalot_metrics_text(with.allocator, text, length + 1, &written, &last_error));
  CHECK_EQUAL(written, length);
  CHECK_EQUAL(strlen(text), length);
  return text;
}

static int has_line(const char* page, const char* line) {
  const size_t length = strlen(line);
  const char* at = page;
  while ((at = strstr(at, line)) != NULL) {
    if ((at == page || at[-1] == '\n') && at[length] == '\n') return 1;
    at++;
  }
  return 0;
}

#define CHECK_LINE(page, line) check_true(has_line(page, line), line, __LINE__)

static void every_device_has_its_series(void) {
  fixture with = open_busy();
  char* const page = page_of(with);
  CHECK_LINE(page, "# HELP cachalot_allocated_bytes Bytes of blocks that are handed out.");
  CHECK_LINE(page, "# TYPE cachalot_allocated_bytes gauge");
  CHECK_LINE(page, "cachalot_allocated_bytes{device=\"0\",pool=\"small\"} 0");
  CHECK_LINE(page, "cachalot_allocated_bytes{device=\"0\",pool=\"large\"} 12582912");
  CHECK_LINE(page, "cachalot_allocated_bytes{device=\"1\",pool=\"small\"} 5120");
  CHECK_LINE(page, "cachalot_allocated_peak_bytes{device=\"0\"} 33554432");
  CHECK_LINE(page, "# TYPE cachalot_allocations_total counter");
  CHECK_LINE(page, "cachalot_allocations_total{device=\"0\",pool=\"large\"} 2");
  CHECK_LINE(page, "cachalot_frees_total{device=\"0\",pool=\"large\"} 1");
  CHECK_LINE(page, "cachalot_ooms_total{device=\"0\"} 1");
  CHECK_LINE(page, "cachalot_device_allocs_total{device=\"0\"} 2");
  CHECK_LINE(page, "cachalot_build_info{version=\"" CACHALOT_VERSION_STRING
                   "\",release=\"2.15\",backend=\"native\"} 1");
  free(page);
  close_busy(with);
}

static void only_a_device_with_a_limit_shows_one(void) {
  fixture with = open_busy();
  char* const page = page_of(with);
  CHECK_LINE(page, "cachalot_limit_bytes{device=\"1\"} 943718400");
  CHECK(strstr(page, "cachalot_limit_bytes{device=\"0\"}") == NULL);
  free(page);
  close_busy(with);
}

static void private_pools_have_families_of_their_own(void) {
  fixture with = open_busy();
  char* const page = page_of(with);
  CHECK_LINE(page,
             "cachalot_private_pool_reserved_bytes{device=\"0\",kind=\"user\",id=\"7\",pool="
             "\"large\"} 12582912");
  free(page);
  close_busy(with);
}

static void labels_are_escaped(void) {
  fixture with = open_busy();
  char* const page = page_of(with);
  CHECK_LINE(page, "cachalot_label_allocated_bytes{device=\"1\",label=\"plain\"} 1024");
  CHECK_LINE(
      page,
      "cachalot_label_allocated_bytes{device=\"1\",label=\"quote \\\" backslash \\\\ newline "
      "\\n end\"} 1024");
  free(page);
  close_busy(with);
}

/* A page with the same series twice is refused as a whole. */
static void labels_that_are_no_utf8_are_one_series(void) {
  fixture with = open_busy();
  char* const page = page_of(with);
  CHECK_LINE(page, "cachalot_label_allocated_bytes{device=\"1\",label=\"\xEF\xBF\xBD\"} 2048");
  free(page);
  close_busy(with);
}

static void sums_fall_back_to_0_by_a_reset(void) {
  fixture with = open_busy();
  char* page = NULL;
  CHECK_OK(cachalot_reset_accumulated_stats(with.allocator, 0, &last_error));
  page = page_of(with);
  CHECK_LINE(page, "cachalot_allocations_total{device=\"0\",pool=\"large\"} 0");
  CHECK_LINE(page, "cachalot_allocated_bytes{device=\"0\",pool=\"large\"} 12582912");
  free(page);
  close_busy(with);
}

static void the_drivers_pool_is_one_pool(void) {
  cachalot_allocator_options options = {0};
  fixture with;
  char* page = NULL;
  cachalot_address block = 0;
  options.config = "backend:cudaMallocAsync";
  options.release = CACHALOT_RELEASE_2_11;
  with = open_with(options);
  block = allocate_on(with, 12 * MIB, 0);
  page = page_of(with);
  CHECK_LINE(page, "cachalot_allocated_bytes{device=\"0\",pool=\"driver\"} 12582912");
  CHECK_LINE(page, "cachalot_build_info{version=\"" CACHALOT_VERSION_STRING
                   "\",release=\"2.11\",backend=\"cudaMallocAsync\"} 1");
  CHECK(strstr(page, "pool=\"small\"") == NULL);
  free(page);
  free_block(with, block);
  close_fixture(with);
}

static void a_text_that_does_not_fit_is_cut(void) {
  fixture with = open_fixture();
  char text[7] = "??????";
  size_t length = 0;
  CHECK_OK(cachalot_metrics_text(with.allocator, text, sizeof text, &length, &last_error));
  CHECK_TEXT(text, "# HELP");
  CHECK(length > 1000);
  close_fixture(with);
}

static int print_page(void) {
  fixture with = open_busy();
  char* const page = page_of(with);
  fputs(page, stdout);
  free(page);
  close_busy(with);
  return failed_checks > 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "--print") == 0) return print_page();
  RUN(every_device_has_its_series);
  RUN(only_a_device_with_a_limit_shows_one);
  RUN(private_pools_have_families_of_their_own);
  RUN(labels_are_escaped);
  RUN(labels_that_are_no_utf8_are_one_series);
  RUN(sums_fall_back_to_0_by_a_reset);
  RUN(the_drivers_pool_is_one_pool);
  RUN(a_text_that_does_not_fit_is_cut);
  return report();
}
