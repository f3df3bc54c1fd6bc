/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* cachalot as a contender of the benchmarks. CACHALOT_LATENCY_WITH names what it does besides: labels, tenants,
 * history. CACHALOT_LATENCY_CONFIG is its option string. */
#include <cachalot/cachalot.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contender.h"

static cachalot_driver* driver;
static cachalot_allocator* allocator;

static void must(cachalot_status status, const cachalot_error* error) {
  if (status == CACHALOT_OK) return;
  fprintf(stderr, "%s\n", error->message);
  abort();
}

static void begin_labels(void) {
  cachalot_error error = {.struct_size = sizeof(error)};
  must(cachalot_label_push("model", &error), &error);
}

static void begin_tenants(void) {
  cachalot_error error = {.struct_size = sizeof(error)};
  cachalot_tenant* tenant = NULL;
  const cachalot_tenant_options options = {.struct_size = sizeof(options), .name = "tenant"};
  must(cachalot_tenant_create(allocator, &options, &tenant, &error), &error);
  must(cachalot_tenant_begin(tenant, &error), &error);
}

static void begin_history(void) {
  cachalot_error error = {.struct_size = sizeof(error)};
  const cachalot_history_options options = {
      .struct_size = sizeof(options), .enabled = 1, .max_entries = 100000};
  must(cachalot_record_history(allocator, &options, &error), &error);
}

__attribute__((constructor)) static void open_allocator(void) {
  cachalot_error error = {.struct_size = sizeof(error)};
  const char* with = getenv("CACHALOT_LATENCY_WITH") ? getenv("CACHALOT_LATENCY_WITH") : "";
  const char* config = getenv("CACHALOT_LATENCY_CONFIG");
  must(cachalot_sim_create(&(cachalot_sim_options){.struct_size = sizeof(cachalot_sim_options),
                                                   .capacity = (uint64_t)1 << 42},
                           &driver, &error),
       &error);
  const char* release = getenv("CACHALOT_RELEASE");
  const cachalot_allocator_options options = {
      .struct_size = sizeof(options),
      .driver = driver,
      .config = config ? config : "",
      .track_labels = strstr(with, "labels") != NULL,
      .release = release && release[3] == '1' && release[2] == '1' ? CACHALOT_RELEASE_2_11
                                                                   : CACHALOT_RELEASE_2_15};
  must(cachalot_allocator_create(&options, &allocator, &error), &error);
  if (strstr(with, "labels")) begin_labels();
  if (strstr(with, "tenants")) begin_tenants();
  if (strstr(with, "history")) begin_history();
}

void* cachalot_latency_alloc(ssize_t size, int device, void* stream) {
  cachalot_address address = 0;
  cachalot_error error; /* an initializer would clear 4 KiB in each call */
  error.struct_size = sizeof(error);
  must(cachalot_allocate(allocator, (uint64_t)size, device, (cachalot_stream)(uintptr_t)stream,
                         &address, &error),
       &error);
  return (void*)(uintptr_t)address;
}

void cachalot_latency_free(void* address, ssize_t size, int device, void* stream) {
  (void)size, (void)device, (void)stream;
  cachalot_free(allocator, (cachalot_address)(uintptr_t)address, NULL);
}

void cachalot_latency_set_latency(uint64_t nanoseconds) {
  cachalot_error error = {.struct_size = sizeof(error)};
  must(cachalot_sim_set_latency(driver, CACHALOT_SIM_CALL_ALLOCATE | CACHALOT_SIM_CALL_FREE,
                                nanoseconds, &error),
       &error);
}

void cachalot_latency_snapshot(void) {
  cachalot_error error = {.struct_size = sizeof(error)};
  cachalot_snapshot* snapshot = NULL;
  must(cachalot_snapshot_take(allocator, NULL, &snapshot, &error), &error);
  cachalot_snapshot_destroy(snapshot);
}

void cachalot_latency_trim(void) {
  cachalot_error error = {.struct_size = sizeof(error)};
  must(cachalot_trim(allocator, 0, 0, 0, NULL, &error), &error);
}

void cachalot_latency_read_stats(void) {
  cachalot_error error = {.struct_size = sizeof(error)};
  cachalot_stats stats = {.struct_size = sizeof(stats)};
  must(cachalot_get_stats(allocator, 0, &stats, &error), &error);
}
