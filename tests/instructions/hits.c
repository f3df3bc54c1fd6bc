/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Pairs of cachalot_allocate and cachalot_free, whose instructions instructions.py counts.
 *
 *   hits ROW PAIRS     ROW: none (the loop alone), window, pingpong, large (a ping-pong) or streams
 *
 * HITS_CONFIG is the option string; HITS_WITH names what the allocator does besides: labels, tenants,
 * history, recorder. With HITS_PLUGGABLE defined the calls are those of libcachalot_pluggable.so, with the driver and
 * the options of the environment. */
#include <cachalot/cachalot.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLive = 64, kStreams = 16 };

static void must(cachalot_status status, const cachalot_error* error) {
  if (status == CACHALOT_OK) return;
  fprintf(stderr, "%s\n", error->message);
  exit(1);
}

static uint32_t random_number(void) {
  static uint64_t state = 7;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}

/* As an inference server asks: many small, some activations, few large. */
static uint64_t server_size(void) {
  const uint32_t percent = random_number() % 100;
  if (percent < 55) return (uint64_t)256 << (random_number() % 9);
  if (percent < 90) return ((uint64_t)1 << 16) * (1 + random_number() % 160);
  return ((uint64_t)1 << 20) * (8 + random_number() % 56);
}

static volatile uint64_t sink; /* so that the loop alone computes what the others do */

#ifdef HITS_PLUGGABLE
void* cachalot_pluggable_alloc(size_t size, int device, void* stream);
void cachalot_pluggable_free(void* pointer, size_t size, int device, void* stream);
cachalot_status cachalot_pluggable_get_allocator(cachalot_allocator** out, cachalot_error* error);

static cachalot_allocator* open_allocator(const char* with) {
  cachalot_error error = {.struct_size = sizeof(error)};
  cachalot_allocator* allocator = NULL;
  (void)with;
  must(cachalot_pluggable_get_allocator(&allocator, &error), &error);
  return allocator;
}

static cachalot_address allocate(cachalot_allocator* allocator, uint64_t size,
                                 cachalot_stream stream) {
  (void)allocator;
  return (cachalot_address)cachalot_pluggable_alloc(size, 0, (void*)stream);
}

static void release(cachalot_allocator* allocator, cachalot_address block) {
  (void)allocator;
  cachalot_pluggable_free((void*)block, 0, 0, NULL);
}
#else
static cachalot_address allocate(cachalot_allocator* allocator, uint64_t size,
                                 cachalot_stream stream) {
  static cachalot_error error = {.struct_size = sizeof(error)};
  cachalot_address block = 0;
  must(cachalot_allocate(allocator, size, 0, stream, &block, &error), &error);
  return block;
}

static void release(cachalot_allocator* allocator, cachalot_address block) {
  cachalot_free(allocator, block, NULL);
}

static cachalot_allocator* open_allocator(const char* with) {
  cachalot_error error = {.struct_size = sizeof(error)};
  cachalot_driver* driver = NULL;
  cachalot_allocator* allocator = NULL;
  must(cachalot_sim_create(&(cachalot_sim_options){.struct_size = sizeof(cachalot_sim_options),
                                                   .capacity = (uint64_t)1 << 42},
                           &driver, &error),
       &error);
  const char* config = getenv("HITS_CONFIG");
  must(cachalot_allocator_create(
           &(cachalot_allocator_options){.struct_size = sizeof(cachalot_allocator_options),
                                         .driver = driver,
                                         .config = config ? config : "",
                                         .release = CACHALOT_RELEASE_2_11,
                                         .track_labels = strstr(with, "labels") != NULL},
           &allocator, &error),
       &error);
  return allocator;
}

#endif

static int32_t drop(void* user_data, const void* data, size_t size) {
  (void)user_data;
  (void)data;
  (void)size;
  return 0;
}

static void begin(cachalot_allocator* allocator, const char* with) {
  cachalot_error error = {.struct_size = sizeof(error)};
  if (strstr(with, "labels")) must(cachalot_label_push("model", &error), &error);
  if (strstr(with, "tenants")) {
    cachalot_tenant* tenant = NULL;
    must(cachalot_tenant_create(
             allocator, &(cachalot_tenant_options){.struct_size = sizeof(cachalot_tenant_options)},
             &tenant, &error),
         &error);
    must(cachalot_tenant_begin(tenant, &error), &error);
  }
  if (strstr(with, "history")) {
    must(
        cachalot_record_history(
            allocator,
            &(cachalot_history_options){
                .struct_size = sizeof(cachalot_history_options), .enabled = 1, .max_entries = 1000},
            &error),
        &error);
  }
  if (strstr(with, "recorder")) {
    uint64_t id = 0;
    must(cachalot_recorder_start(
             allocator,
             &(cachalot_recorder_options){.struct_size = sizeof(cachalot_recorder_options),
                                          .path = getenv("HITS_RECORDING"),
                                          .write = getenv("HITS_RECORDING") ? NULL : drop},
             &id, &error),
         &error);
  }
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: hits ROW PAIRS\n");
    return 2;
  }
  const char row = argv[1][0];
  const long pairs = strtol(argv[2], NULL, 10);
  const char* with = getenv("HITS_WITH") ? getenv("HITS_WITH") : "";
  cachalot_allocator* const allocator = open_allocator(with);
  begin(allocator, with);
  cachalot_address blocks[kLive] = {0};
  for (long i = 0; i < pairs; i++) {
    const uint32_t at = random_number() % kLive;
    const uint64_t random_size = server_size();
    const uint64_t size = row == 'p' ? 1024 : row == 'l' ? (uint64_t)64 << 20 : random_size;
    const cachalot_stream stream = row == 's' ? 4096u * (1 + at % kStreams) : 0;
    cachalot_address* const block = &blocks[row == 'p' || row == 'l' ? 0 : at];
    if (row == 'n') {
      sink = size + stream + *block;
      continue;
    }
    if (*block) release(allocator, *block);
    *block = allocate(allocator, size, stream);
  }
  return 0;
}
