/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Why "out of memory" although there is free memory: allocate ten blocks, free every second one,
 * ask for a big one. Runs on a simulated device of 80 MiB, so it needs no GPU.
 *
 *   fragmentation                             the default options: it does not fit
 *   fragmentation expandable_segments:True    what the message advises: it fits (docs/config.md says
 *                                             what such memory asks of RDMA, peers and processes)
 */
#include <cachalot/cachalot.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 10 };
static const uint64_t MIB = 1 << 20;

static double mib(uint64_t bytes) { return (double)bytes / (double)MIB; }

static void must(cachalot_status status, const cachalot_error* error) {
  if (status == CACHALOT_OK) return;
  fprintf(stderr, "%s\n", error->message);
  exit(2);
}

static cachalot_allocator* make_allocator(const char* config) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_sim_options device = {.struct_size = sizeof device, .capacity = 80 * MIB};
  cachalot_driver* driver = NULL;
  must(cachalot_sim_create(&device, &driver, &error), &error);

  cachalot_allocator_options options = {
      .struct_size = sizeof options, .driver = driver, .config = config};
  cachalot_allocator* allocator = NULL;
  must(cachalot_allocator_create(&options, &allocator, &error), &error);
  cachalot_driver_destroy(driver); /* The allocator keeps it alive. */
  return allocator;
}

static void allocate_ten_and_free_every_second(cachalot_allocator* allocator) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_address blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; ++i) {
    must(cachalot_allocate(allocator, 5 * MIB, 0, 0, &blocks[i], &error), &error);
  }
  for (int i = 1; i < BLOCKS; i += 2) must(cachalot_free(allocator, blocks[i], &error), &error);
}

static void print_summary(cachalot_allocator* allocator) {
  char text[8192];
  size_t length = 0;
  cachalot_error error = CACHALOT_ERROR_INIT;
  must(cachalot_memory_summary(allocator, 0, 1, text, sizeof text, &length, &error), &error);
  printf("\n%s\n", text);
}

/* The free pieces of memory that the allocator holds: how many, and the largest. */
static void print_pieces(cachalot_allocator* allocator) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_snapshot* snapshot = NULL;
  must(cachalot_snapshot_take(allocator, NULL, &snapshot, &error), &error);
  size_t pieces = 0;
  uint64_t largest = 0;
  for (size_t i = 0; i < cachalot_snapshot_block_count(snapshot); ++i) {
    cachalot_block_row block = {.struct_size = sizeof block};
    cachalot_snapshot_block(snapshot, i, &block);
    if (block.state != CACHALOT_BLOCK_INACTIVE) continue;
    ++pieces;
    if (block.size > largest) largest = block.size;
  }
  printf("They are %zu pieces, the largest of %.0f MiB", pieces, mib(largest));
  cachalot_snapshot_destroy(snapshot);
}

static void explain(cachalot_allocator* allocator, const cachalot_error* failure) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_stats stats = {.struct_size = sizeof stats};
  must(cachalot_get_stats(allocator, 0, &stats, &error), &error);
  printf("%.0f MiB do not fit although %.0f MiB are cached and free.\n", mib(failure->requested),
         mib(failure->reserved - failure->allocated));
  print_pieces(allocator);
  printf(", so none is big enough.\n");
  printf("The device has %.0f MiB left: no room for a new segment of %.0f MiB.\n",
         mib(failure->device_free), mib(failure->segment_size));
  printf("%.0f MiB cannot go back to the device: live blocks lie in the same segments.\n",
         mib((uint64_t)stats.inactive_split_bytes.all.current));
}

int main(int argument_count, char** arguments) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_allocator* allocator = make_allocator(argument_count > 1 ? arguments[1] : "");
  allocate_ten_and_free_every_second(allocator);

  cachalot_address big = 0;
  cachalot_status status = cachalot_allocate(allocator, 30 * MIB, 0, 0, &big, &error);
  if (status == CACHALOT_OK) {
    printf("30 MiB fit, at %#" PRIx64 ".\n", big);
  } else {
    printf("%s\n", error.message);
  }
  print_summary(allocator);
  if (status == CACHALOT_ERROR_OUT_OF_MEMORY) explain(allocator, &error);

  must(cachalot_allocator_destroy_all(allocator, &error), &error);
  return 0;
}
