/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * cachalot_metrics_text. With the argument --print it writes the page of a busy allocator instead,
 * for metrics_parse.py; with --print-all pinned memory too, for tests/operators.
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

typedef struct busy_tenants {
  fixture with;
  cachalot_tenant* all[4];
  cachalot_address blocks[7];
  int given;
} busy_tenants;

static uint64_t give_one_block(void* user_data, const cachalot_pressure* pressure) {
  busy_tenants* const tenants = user_data;
  (void)pressure;
  free_block(tenants->with, tenants->blocks[tenants->given++]);
  return 100 * MIB;
}

static void allocate_for(busy_tenants* tenants, int tenant, uint64_t size,
                         cachalot_address* address) {
  CHECK_OK(cachalot_allocate_for(tenants->with.allocator, tenants->all[tenant], size, 0, 0, address,
                                 &last_error));
}

/* One that reaches its limit, one that is asked for a block, and two of one name. The device of
 * 1 GiB is full. */
static void open_tenants(busy_tenants* tenants) {
  cachalot_tenant_options options[4] = {
      {.name = "chat", .guaranteed_bytes = 200 * MIB, .limit_bytes = 200 * MIB, .priority = 2},
      {.name = "batch \" \\ \n \xFF", .priority = -1, .pressure = give_one_block},
      {.name = "twin"},
      {.name = "twin"}};
  cachalot_address address = 0;
  int i;
  memset(tenants, 0, sizeof *tenants);
  tenants->with = open_busy();
  options[1].pressure_user_data = tenants;
  for (i = 0; i < 4; i++) {
    options[i].struct_size = sizeof options[i];
    CHECK_OK(cachalot_tenant_create(tenants->with.allocator, &options[i], &tenants->all[i],
                                    &last_error));
  }
  for (i = 0; i < 7; i++) allocate_for(tenants, 1, 100 * MIB, &tenants->blocks[i]);
  allocate_for(tenants, 0, 150 * MIB - 1000, &address);
  CHECK_FAILS(cachalot_allocate_for(tenants->with.allocator, tenants->all[0], 60 * MIB, 0, 0,
                                    &address, &last_error),
              CACHALOT_ERROR_OUT_OF_MEMORY);
  allocate_for(tenants, 3, 200 * MIB, &address);
}

static void close_tenants(busy_tenants* tenants) {
  int i;
  close_busy(tenants->with);
  for (i = 0; i < 4; i++) CHECK_OK(cachalot_tenant_destroy(tenants->all[i], &last_error));
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

/* Of the tenants of open_tenants on the first device. The name of the second has all that is to be
 * escaped. */
#define CHECK_CHAT(page, family, value) \
  CHECK_LINE(page, "cachalot_tenant_" family "{device=\"0\",tenant=\"chat\",id=\"1\"} " value)
#define CHECK_BATCH(page, family, value)     \
  CHECK_LINE(page, "cachalot_tenant_" family \
                   "{device=\"0\",tenant=\"batch \\\" \\\\ \\n \xEF\xBF\xBD\",id=\"2\"} " value)

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
                   "\",release=\"2.15\",backend=\"native\",policy=\"pytorch\"} 1");
  CHECK_LINE(page, "cachalot_pinned_bytes{device=\"0\"} 0");
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

static size_t lines_that_begin(const char* page, const char* with) {
  size_t count = 0;
  const char* at = page;
  while ((at = strstr(at, with)) != NULL) {
    count += at == page || at[-1] == '\n';
    at++;
  }
  return count;
}

static void pools_that_are_gone_have_no_series(void) {
  const cachalot_pool_id pool = {0, 7};
  const cachalot_pool_route route = {.struct_size = sizeof(cachalot_pool_route)};
  cachalot_allocator_options options = {.release = CACHALOT_RELEASE_2_15};
  fixture with = open_with(options);
  size_t rows = 0;
  char* page = NULL;
  CHECK_OK(cachalot_pool_create(with.allocator, 0, pool, NULL, &last_error));
  CHECK_OK(cachalot_pool_begin(with.allocator, 0, pool, &route, &last_error));
  free_block(with, allocate_on(with, 12 * MIB, 0));
  CHECK_OK(cachalot_pool_end(with.allocator, 0, pool, &last_error));
  page = page_of(with);
  CHECK(lines_that_begin(page, "cachalot_private_pool_reserved_bytes{") == 2);
  free(page);
  CHECK_OK(cachalot_pool_release(with.allocator, 0, pool, &last_error));
  CHECK_OK(cachalot_pool_release(with.allocator, 0, pool, &last_error));
  CHECK_OK(cachalot_empty_cache(with.allocator, &last_error));
  page = page_of(with);
  CHECK(lines_that_begin(page, "cachalot_private_pool_reserved_bytes{") == 0);
  free(page);
  CHECK_OK(cachalot_pool_stats_count(with.allocator, 0, &rows, &last_error));
  CHECK_EQUAL(rows, 1);
  close_fixture(with);
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

static void a_page_without_tenants_does_not_name_them(void) {
  fixture with = open_busy();
  char* const page = page_of(with);
  CHECK(strstr(page, "tenant") == NULL);
  free(page);
  close_busy(with);
}

static void every_tenant_has_its_series_on_every_device(void) {
  busy_tenants tenants;
  char* page = NULL;
  open_tenants(&tenants);
  page = page_of(tenants.with);
  CHECK_LINE(page, "# HELP cachalot_tenant_allocated_bytes Bytes of blocks that a tenant has.");
  CHECK_LINE(page, "# TYPE cachalot_tenant_allocated_bytes gauge");
  CHECK_CHAT(page, "allocated_bytes", "157286400");
  CHECK_CHAT(page, "requested_bytes", "157285400");
  CHECK_CHAT(page, "allocated_blocks", "1");
  CHECK_CHAT(page, "guaranteed_bytes", "209715200");
  CHECK_CHAT(page, "limit_bytes", "209715200");
  CHECK_CHAT(page, "priority", "2");
  CHECK_LINE(page, "cachalot_tenant_allocated_bytes{device=\"1\",tenant=\"chat\",id=\"1\"} 0");
  CHECK_LINE(page, "cachalot_tenant_priority{device=\"1\",tenant=\"chat\",id=\"1\"} 2");
  free(page);
  close_tenants(&tenants);
}

static void the_default_tenant_has_what_names_no_other(void) {
  busy_tenants tenants;
  char* page = NULL;
  open_tenants(&tenants);
  page = page_of(tenants.with);
  CHECK_LINE(page,
             "cachalot_tenant_allocated_bytes{device=\"0\",tenant=\"default\",id=\"0\"} 12582912");
  CHECK_LINE(page, "cachalot_tenant_guaranteed_bytes{device=\"0\",tenant=\"default\",id=\"0\"} 0");
  free(page);
  close_tenants(&tenants);
}

static void only_a_tenant_with_a_limit_shows_one(void) {
  busy_tenants tenants;
  char* page = NULL;
  open_tenants(&tenants);
  CHECK_OK(cachalot_tenant_set_bytes(tenants.all[0], 1, 200 * MIB, 0, &last_error));
  page = page_of(tenants.with);
  CHECK_CHAT(page, "limit_bytes", "209715200");
  CHECK(strstr(page, "cachalot_tenant_limit_bytes{device=\"1\"") == NULL);
  CHECK(strstr(page, "cachalot_tenant_limit_bytes{device=\"0\",tenant=\"twin\"") == NULL);
  free(page);
  close_tenants(&tenants);
}

static void tenants_of_one_name_are_told_apart_by_their_ids(void) {
  busy_tenants tenants;
  char* page = NULL;
  open_tenants(&tenants);
  page = page_of(tenants.with);
  CHECK_LINE(page, "cachalot_tenant_allocated_bytes{device=\"0\",tenant=\"twin\",id=\"3\"} 0");
  CHECK_LINE(page,
             "cachalot_tenant_allocated_bytes{device=\"0\",tenant=\"twin\",id=\"4\"} 209715200");
  free(page);
  close_tenants(&tenants);
}

static void refusals_and_pressure_are_counted_by_tenant(void) {
  busy_tenants tenants;
  char* page = NULL;
  open_tenants(&tenants);
  page = page_of(tenants.with);
  CHECK_LINE(page, "# TYPE cachalot_tenant_ooms_total counter");
  CHECK_CHAT(page, "ooms_total", "1");
  CHECK_CHAT(page, "pressure_calls_total", "0");
  CHECK_BATCH(page, "ooms_total", "0");
  CHECK_BATCH(page, "pressure_calls_total", "1");
  CHECK_BATCH(page, "pressure_freed_bytes_total", "104857600");
  CHECK_BATCH(page, "allocations_total", "7");
  CHECK_BATCH(page, "frees_total", "1");
  CHECK_BATCH(page, "handed_out_bytes_total", "734003200");
  CHECK_BATCH(page, "freed_bytes_total", "104857600");
  free(page);
  close_tenants(&tenants);
}

static void peaks_and_sums_of_tenants_are_reset_with_the_devices(void) {
  busy_tenants tenants;
  char* page = NULL;
  open_tenants(&tenants);
  page = page_of(tenants.with);
  CHECK_BATCH(page, "allocated_peak_bytes", "734003200");
  CHECK_BATCH(page, "requested_peak_bytes", "734003200");
  free(page);
  CHECK_OK(cachalot_reset_peak_stats(tenants.with.allocator, 0, &last_error));
  CHECK_OK(cachalot_reset_accumulated_stats(tenants.with.allocator, 0, &last_error));
  page = page_of(tenants.with);
  CHECK_BATCH(page, "allocated_peak_bytes", "629145600");
  CHECK_BATCH(page, "allocations_total", "0");
  CHECK_BATCH(page, "pressure_calls_total", "0");
  CHECK_BATCH(page, "allocated_bytes", "629145600");
  free(page);
  close_tenants(&tenants);
}

static void a_tenant_that_was_destroyed_has_no_series(void) {
  busy_tenants tenants;
  char* page = NULL;
  open_tenants(&tenants);
  CHECK_OK(cachalot_tenant_destroy(tenants.all[2], &last_error));
  tenants.all[2] = NULL;
  page = page_of(tenants.with);
  CHECK(strstr(page, "tenant=\"twin\",id=\"3\"") == NULL);
  CHECK(strstr(page, "tenant=\"twin\",id=\"4\"") != NULL);
  free(page);
  close_tenants(&tenants);
}

static cachalot_address allocate_under(fixture with, int number) {
  char label[32];
  cachalot_address block = 0;
  snprintf(label, sizeof label, "request-%d", number);
  CHECK_OK(cachalot_label_push(label, &last_error));
  block = allocate_on(with, 1000, 0);
  CHECK_OK(cachalot_label_pop(&last_error));
  return block;
}

static void labels_that_are_gone_end_and_their_sums_stay(void) {
  cachalot_allocator_options options = {.track_labels = 1};
  fixture with = open_with(options);
  const cachalot_address kept = allocate_under(with, 0);
  char* page = NULL;
  int i;
  for (i = 1; i <= 3 * CACHALOT_MAX_LABELS; i++) free_block(with, allocate_under(with, i));
  page = page_of(with);
  CHECK_EQUAL(lines_that_begin(page, "cachalot_label_allocations_total{"), CACHALOT_MAX_LABELS + 1);
  CHECK_LINE(page, "cachalot_label_allocated_blocks{device=\"0\",label=\"request-0\"} 1");
  CHECK_LINE(page, "cachalot_label_allocations_total{device=\"0\",label=\"request-3000\"} 1");
  CHECK_LINE(page, "cachalot_label_allocations_total{device=\"0\",label=\"(other)\"} 2001");
  CHECK_LINE(page, "cachalot_label_frees_total{device=\"0\",label=\"(other)\"} 2001");
  CHECK_LINE(page, "cachalot_label_allocated_bytes{device=\"0\",label=\"(other)\"} 0");
  free(page);
  free_block(with, kept);
  close_fixture(with);
}

static void labels_beyond_the_last_row_are_counted_as_others(void) {
  static cachalot_address blocks[CACHALOT_MAX_LABELS + 2];
  cachalot_allocator_options options = {.track_labels = 1};
  fixture with = open_with(options);
  char* page = NULL;
  int i;
  for (i = 0; i < CACHALOT_MAX_LABELS + 2; i++) blocks[i] = allocate_under(with, i);
  page = page_of(with);
  CHECK_LINE(page, "cachalot_label_allocated_blocks{device=\"0\",label=\"(other)\"} 2");
  CHECK(strstr(page, "request-1000\"") == NULL);
  free(page);
  for (i = 0; i < CACHALOT_MAX_LABELS + 2; i++) free_block(with, blocks[i]);
  free_block(with, allocate_under(with, CACHALOT_MAX_LABELS));
  page = page_of(with);
  CHECK_LINE(page, "cachalot_label_allocations_total{device=\"0\",label=\"request-1000\"} 1");
  CHECK_LINE(page, "cachalot_label_allocations_total{device=\"0\",label=\"(other)\"} 3");
  CHECK_LINE(page, "cachalot_label_allocated_bytes{device=\"0\",label=\"(other)\"} 0");
  free(page);
  close_fixture(with);
}

static void memory_of_a_device_is_told_whoever_has_it(void) {
  fixture with = open_busy();
  const cachalot_allocator_options options = {
      .struct_size = sizeof options, .driver = with.driver, .config = ""};
  fixture other = {with.driver, NULL};
  cachalot_address block = 0;
  char* page = NULL;
  CHECK_OK(cachalot_allocator_create(&options, &other.allocator, &last_error));
  block = allocate_on(other, 20 * MIB, 0);
  CHECK_OK(cachalot_sim_add_process(with.driver, 0, 4711, 30 * MIB, &last_error));
  CHECK_OK(cachalot_sim_add_process(with.driver, 0, 4711, 5 * MIB, &last_error));
  CHECK_OK(cachalot_sim_add_process(with.driver, 1, 12, 7 * MIB, &last_error));
  CHECK_OK(cachalot_sim_add_process(with.driver, 1, 13, UINT64_MAX, &last_error));
  page = page_of(with);
  CHECK_LINE(page, "cachalot_device_total_bytes{device=\"0\"} 1073741824");
  CHECK_LINE(page, "cachalot_device_free_bytes{device=\"0\"} 1040187392");
  CHECK_LINE(page, "cachalot_device_outside_bytes{device=\"0\"} 20971520");
  CHECK_LINE(page, "cachalot_device_outside_bytes{device=\"1\"} 0");
  CHECK_LINE(page, "cachalot_device_process_bytes{device=\"0\",pid=\"4711\"} 36700160");
  CHECK_LINE(page, "cachalot_device_process_bytes{device=\"1\",pid=\"12\"} 7340032");
  CHECK(strstr(page, "pid=\"13\"") == NULL);
  free(page);
  free_block(other, block);
  CHECK_OK(cachalot_allocator_destroy(other.allocator, &last_error));
  close_busy(with);
}

static void a_driver_that_does_not_tell_leaves_the_rest_of_the_page(void) {
  fixture with = open_busy();
  const cachalot_sim_failure failure = {.struct_size = sizeof failure,
                                        .calls = CACHALOT_SIM_CALL_MEMORY_INFO,
                                        .code = 999,
                                        .count = 2};
  char* page = malloc(100000);
  CHECK_OK(cachalot_sim_fail(with.driver, &failure, &last_error));
  CHECK_OK(cachalot_metrics_text(with.allocator, page, 100000, NULL, &last_error));
  CHECK(lines_that_begin(page, "cachalot_device_total_bytes{") == 0);
  CHECK(lines_that_begin(page, "cachalot_device_process_bytes{") == 0);
  CHECK_LINE(page, "# TYPE cachalot_device_outside_bytes gauge");
  CHECK_LINE(page, "cachalot_ooms_total{device=\"0\"} 1");
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

static void only_the_serving_policy_has_families_of_its_own(void) {
  const cachalot_stream first = 0x10, second = 0x20;
  fixture with = open_busy();
  cachalot_address pinned = 0;
  char* page = page_of(with);
  CHECK(strstr(page, "cachalot_policy_") == NULL);
  free(page);
  close_busy(with);
  with = open_with((cachalot_allocator_options){.policy = CACHALOT_POLICY_SERVING});
  free_block(with, allocate_on(with, 4 * MIB, first));
  pinned = allocate_on(with, 4 * MIB, second);
  CHECK_OK(cachalot_pin(with.allocator, pinned, 1, &last_error));
  page = page_of(with);
  CHECK_LINE(page, "cachalot_build_info{version=\"" CACHALOT_VERSION_STRING
                   "\",release=\"2.15\",backend=\"native\",policy=\"serving\"} 1");
  CHECK_LINE(page, "cachalot_pinned_bytes{device=\"0\"} 2097152");
  CHECK_LINE(page, "# TYPE cachalot_policy_pages_created_total counter");
  CHECK_LINE(page, "cachalot_policy_pages_created_total{device=\"0\"} 2");
  CHECK_LINE(page, "cachalot_policy_pages_created_total{device=\"1\"} 0");
  CHECK_LINE(page, "cachalot_policy_pages_moved_total{device=\"0\"} 0");
  CHECK_LINE(page, "cachalot_policy_borrowed_blocks_total{device=\"0\"} 1");
  CHECK_LINE(page, "cachalot_policy_stream_waits_total{device=\"0\"} 1");
  CHECK_LINE(page, "cachalot_policy_host_waits_total{device=\"0\"} 0");
  free(page);
  CHECK_OK(cachalot_unpin(with.allocator, pinned, 1, &last_error));
  free_block(with, pinned);
  CHECK_OK(cachalot_empty_cache(with.allocator, &last_error));
  page = page_of(with);
  CHECK_LINE(page, "cachalot_policy_pages_released_total{device=\"0\"} 2");
  free(page);
  close_fixture(with);
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
                   "\",release=\"2.11\",backend=\"cudaMallocAsync\",policy=\"pytorch\"} 1");
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

static int print_page(int with_pinned_memory) {
  busy_tenants tenants;
  char* page = NULL;
  void* pinned = NULL;
  open_tenants(&tenants);
  CHECK_OK(cachalot_sim_add_process(tenants.with.driver, 0, 4711, 30 * MIB, &last_error));
  if (with_pinned_memory)
    CHECK_OK(cachalot_pinned_allocate(tenants.with.allocator, MIB, &pinned, &last_error));
  page = page_of(tenants.with);
  fputs(page, stdout);
  free(page);
  close_tenants(&tenants);
  return failed_checks > 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "--print") == 0) return print_page(0);
  if (argc > 1 && strcmp(argv[1], "--print-all") == 0) return print_page(1);
  RUN(every_device_has_its_series);
  RUN(only_a_device_with_a_limit_shows_one);
  RUN(private_pools_have_families_of_their_own);
  RUN(pools_that_are_gone_have_no_series);
  RUN(labels_that_are_gone_end_and_their_sums_stay);
  RUN(labels_beyond_the_last_row_are_counted_as_others);
  RUN(memory_of_a_device_is_told_whoever_has_it);
  RUN(a_driver_that_does_not_tell_leaves_the_rest_of_the_page);
  RUN(labels_are_escaped);
  RUN(labels_that_are_no_utf8_are_one_series);
  RUN(a_page_without_tenants_does_not_name_them);
  RUN(every_tenant_has_its_series_on_every_device);
  RUN(the_default_tenant_has_what_names_no_other);
  RUN(only_a_tenant_with_a_limit_shows_one);
  RUN(tenants_of_one_name_are_told_apart_by_their_ids);
  RUN(refusals_and_pressure_are_counted_by_tenant);
  RUN(peaks_and_sums_of_tenants_are_reset_with_the_devices);
  RUN(a_tenant_that_was_destroyed_has_no_series);
  RUN(sums_fall_back_to_0_by_a_reset);
  RUN(only_the_serving_policy_has_families_of_its_own);
  RUN(the_drivers_pool_is_one_pool);
  RUN(a_text_that_does_not_fit_is_cut);
  return report();
}
