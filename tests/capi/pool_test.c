/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Private pools, routing, captures, expandable segments and their reserves. */
#include "check.h"

static const cachalot_pool_id kPool = {0, 1};

/* The pool of the next block on a stream. */
static uint64_t pool_of_next(fixture with, cachalot_stream stream) {
  cachalot_block block = {.struct_size = sizeof(cachalot_block)};
  const cachalot_address address = allocate_on(with, 512, stream);
  CHECK_OK(cachalot_get_block(with.allocator, address, &block, &last_error));
  free_block(with, address);
  return block.pool.second;
}

// 0: there is no such pool.
static int32_t use_count(fixture with) {
  int32_t count = 0;
  const cachalot_status status =
      cachalot_pool_use_count(with.allocator, 0, kPool, &count, &last_error);
  CHECK(status == CACHALOT_OK || status == CACHALOT_ERROR_INVALID_STATE);
  return count;
}

static void new_ids_are_of_two_kinds(void) {
  fixture with = open_fixture();
  cachalot_pool_id user = {9, 9};
  cachalot_pool_id graph = {9, 9};
  cachalot_pool_id next = {9, 9};
  CHECK_OK(cachalot_pool_new_id(with.allocator, 0, &user, &last_error));
  CHECK_OK(cachalot_pool_new_id(with.allocator, 1, &graph, &last_error));
  CHECK_OK(cachalot_pool_new_id(with.allocator, 0, &next, &last_error));
  CHECK(user.first == 0 && user.second > 0 && next.first == 0 && next.second > user.second);
  CHECK(graph.first > 0 && graph.second == 0);
  CHECK_FAILS_WITH(cachalot_pool_new_id(with.allocator, 2, &user, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "for_graph is 2: expected 0 to 1");
  close_fixture(with);
}

static void a_pool_is_created_joined_and_released(void) {
  fixture with = open_fixture();
  CHECK_EQUAL(use_count(with), 0);
  CHECK_OK(cachalot_pool_create(with.allocator, 0, kPool, NULL, &last_error));
  CHECK_OK(cachalot_pool_create(with.allocator, 0, kPool, NULL, &last_error));
  CHECK_EQUAL(use_count(with), 2);
  CHECK_OK(cachalot_pool_release(with.allocator, 0, kPool, &last_error));
  CHECK_OK(cachalot_pool_release(with.allocator, 0, kPool, &last_error));
  CHECK_FAILS(cachalot_pool_create(with.allocator, 0, kPool, NULL, &last_error),
              CACHALOT_ERROR_INVALID_STATE);
  CHECK_OK(cachalot_pool_empty(with.allocator, 0, kPool, &last_error));
  CHECK_OK(cachalot_pool_empty_on_stream(with.allocator, 0, kPool, 0x10, &last_error));
  close_fixture(with);
}

static void ids_have_exactly_one_half(void) {
  fixture with = open_fixture();
  const cachalot_pool_id none = {0, 0};
  const cachalot_pool_id both = {1, 2};
  int32_t count = 0;
  CHECK_FAILS_WITH(cachalot_pool_create(with.allocator, 0, both, NULL, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT,
                   "pool id is (1, 2): exactly one half must not be 0");
  CHECK_FAILS(cachalot_pool_create(with.allocator, 0, none, NULL, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_pool_begin(with.allocator, 0, none, NULL, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_pool_end(with.allocator, 0, none, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_pool_release(with.allocator, 0, none, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_pool_empty(with.allocator, 0, none, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_pool_use_count(with.allocator, 0, both, &count, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_pool_set_no_split(with.allocator, 0, both, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  close_fixture(with);
}

static void misuse_of_a_pool_is_an_invalid_state(void) {
  fixture with = open_fixture();
  int32_t equal = 0;
  CHECK_FAILS(cachalot_pool_end(with.allocator, 0, kPool, &last_error),
              CACHALOT_ERROR_INVALID_STATE);
  CHECK_FAILS(cachalot_pool_release(with.allocator, 0, kPool, &last_error),
              CACHALOT_ERROR_INVALID_STATE);
  CHECK_FAILS(cachalot_pool_has_live(with.allocator, 0, kPool, NULL, 0, &equal, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_OK(cachalot_pool_begin(with.allocator, 0, kPool, NULL, &last_error));
  CHECK_FAILS(cachalot_pool_begin(with.allocator, 0, kPool, NULL, &last_error),
              CACHALOT_ERROR_INVALID_STATE);
  CHECK_EQUAL(use_count(with), 2);
  CHECK_OK(cachalot_pool_end(with.allocator, 0, kPool, &last_error));
  CHECK_FAILS(cachalot_capture_end(with.allocator, 0, &last_error), CACHALOT_ERROR_INVALID_STATE);
  CHECK_FAILS(cachalot_pool_create(with.allocator, 2, kPool, NULL, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_capture_begin(with.allocator, 2, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  close_fixture(with);
}

static void count_destroy(void* user_data) { (*(int*)user_data)++; }

static cachalot_pool_route route_of(int32_t kind) {
  cachalot_pool_route route = {.struct_size = sizeof(cachalot_pool_route)};
  route.kind = kind;
  return route;
}

static void begin(fixture with, const cachalot_pool_route* route) {
  CHECK_OK(cachalot_pool_begin(with.allocator, 0, kPool, route, &last_error));
}

static void end(fixture with) {
  CHECK_OK(cachalot_pool_end(with.allocator, 0, kPool, &last_error));
}

static int32_t takes_streams_above(void* user_data, cachalot_stream stream) {
  return stream > *(uint64_t*)user_data;
}

static void a_routing_takes_what_its_kind_says(void) {
  fixture with = open_fixture();
  uint64_t least = 0x20;
  cachalot_pool_route route;
  begin(with, NULL);
  CHECK_EQUAL(pool_of_next(with, 0), 1);
  end(with);
  route = route_of(CACHALOT_ROUTE_ALL);
  begin(with, &route);
  CHECK_EQUAL(pool_of_next(with, 0x10), 1);
  end(with);
  route = route_of(CACHALOT_ROUTE_NONE);
  begin(with, &route);
  CHECK_EQUAL(pool_of_next(with, 0x10), 0);
  end(with);
  route = route_of(CACHALOT_ROUTE_STREAM);
  route.stream = 0x10;
  begin(with, &route);
  CHECK_EQUAL(pool_of_next(with, 0x10), 1);
  CHECK_EQUAL(pool_of_next(with, 0x20), 0);
  end(with);
  route = route_of(CACHALOT_ROUTE_PREDICATE);
  route.predicate = takes_streams_above;
  route.user_data = &least;
  begin(with, &route);
  CHECK_EQUAL(pool_of_next(with, 0x20), 0);
  CHECK_EQUAL(pool_of_next(with, 0x21), 1);
  end(with);
  CHECK_EQUAL(pool_of_next(with, 0x21), 0);
  close_fixture(with);
}

static void a_routing_can_follow_a_capture(void) {
  fixture with = open_fixture();
  cachalot_pool_route route = route_of(CACHALOT_ROUTE_CAPTURE);
  route.capture_id = 5;
  CHECK_OK(cachalot_sim_begin_capture(with.driver, 0, 0x10, 5, &last_error));
  CHECK_OK(cachalot_sim_begin_capture(with.driver, 0, 0x20, 6, &last_error));
  CHECK_OK(cachalot_capture_begin(with.allocator, 0, &last_error));
  begin(with, &route);
  CHECK_EQUAL(pool_of_next(with, 0x10), 1);
  CHECK_EQUAL(pool_of_next(with, 0x20), 0);
  CHECK_EQUAL(pool_of_next(with, 0x30), 0);
  end(with);
  CHECK_OK(cachalot_capture_end(with.allocator, 0, &last_error));
  CHECK_OK(cachalot_sim_end_capture(with.driver, 0, 5, &last_error));
  CHECK_OK(cachalot_sim_end_capture(with.driver, 0, 6, &last_error));
  close_fixture(with);
}

static void the_data_of_a_routing_is_given_back_once(void) {
  fixture with = open_fixture();
  int destroyed = 0;
  cachalot_pool_route route = route_of(CACHALOT_ROUTE_ALL);
  route.user_data = &destroyed;
  route.destroy = count_destroy;
  begin(with, &route);
  CHECK_EQUAL(destroyed, 0);
  CHECK_FAILS(cachalot_pool_begin(with.allocator, 0, kPool, &route, &last_error),
              CACHALOT_ERROR_INVALID_STATE);
  CHECK_EQUAL(destroyed, 1);
  end(with);
  CHECK_EQUAL(destroyed, 2);
  route.kind = 6;
  CHECK_FAILS_WITH(cachalot_pool_begin(with.allocator, 0, kPool, &route, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "kind is 6: expected 0 to 5");
  CHECK_EQUAL(destroyed, 3);
  route.kind = CACHALOT_ROUTE_PREDICATE;
  CHECK_FAILS_WITH(cachalot_pool_begin(with.allocator, 0, kPool, &route, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "route->predicate is NULL");
  CHECK_EQUAL(destroyed, 4);
  CHECK_FAILS(cachalot_pool_begin(NULL, 0, kPool, &route, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(destroyed, 5);
  route.kind = CACHALOT_ROUTE_ALL;
  begin(with, &route);
  close_fixture(with);
  CHECK_EQUAL(destroyed, 6);
}

/* A source of segments that counts what it does. */
typedef struct source_state {
  int allocated, freed, destroyed;
  cachalot_stream stream;
} source_state;

static cachalot_address source_allocate(void* user_data, uint64_t size, int32_t device,
                                        cachalot_stream stream) {
  source_state* const state = user_data;
  CHECK_EQUAL(device, 0);
  state->stream = stream;
  if (size > 20 * MIB) return 0;
  return UINT64_C(0x600000000000) + (uint64_t)state->allocated++ * 64 * MIB;
}

static void source_free(void* user_data, cachalot_address address, uint64_t size, int32_t device,
                        cachalot_stream stream) {
  source_state* const state = user_data;
  CHECK_EQUAL(address, UINT64_C(0x600000000000));
  CHECK_EQUAL(size, 2 * MIB);
  CHECK_EQUAL(device, 0);
  CHECK_EQUAL(stream, state->stream);
  state->freed++;
}

static void destroy_source(void* user_data) { ((source_state*)user_data)->destroyed++; }

static void a_pool_can_have_its_own_source(void) {
  fixture with = open_fixture();
  source_state state = {0};
  cachalot_pool_source source = {.struct_size = sizeof(cachalot_pool_source)};
  cachalot_pool_options options = {.struct_size = sizeof(cachalot_pool_options)};
  cachalot_address address = 0;
  source.allocate = source_allocate;
  source.free = source_free;
  source.user_data = &state;
  source.destroy = destroy_source;
  options.source = &source;
  CHECK_OK(cachalot_pool_create(with.allocator, 0, kPool, &options, &last_error));
  CHECK_FAILS(cachalot_pool_create(with.allocator, 0, kPool, &options, &last_error),
              CACHALOT_ERROR_INVALID_STATE);
  CHECK_EQUAL(state.destroyed, 1);
  begin(with, NULL);
  address = allocate_on(with, 512, 0x10);
  CHECK_EQUAL(address, UINT64_C(0x600000000000));
  CHECK_EQUAL(state.stream, 0x10);
  free_block(with, address);
  CHECK_FAILS(cachalot_allocate(with.allocator, 64 * MIB, 0, 0x10, &address, &last_error),
              CACHALOT_ERROR_OUT_OF_MEMORY);
  end(with);
  while (use_count(with) > 0)
    CHECK_OK(cachalot_pool_release(with.allocator, 0, kPool, &last_error));
  CHECK_OK(cachalot_pool_empty(with.allocator, 0, kPool, &last_error));
  CHECK(state.allocated == 1 && state.freed == 1);
  close_fixture(with);
  CHECK_EQUAL(state.destroyed, 2);
}

/* Whether the source of its pool gave the memory of a block. */
static int32_t is_from_source(fixture with, cachalot_address address) {
  cachalot_block block = {.struct_size = sizeof(cachalot_block)};
  CHECK_OK(cachalot_get_block(with.allocator, address, &block, &last_error));
  return block.from_source;
}

static void a_block_says_whether_a_source_gave_its_memory(void) {
  fixture with = open_fixture();
  source_state state = {0};
  cachalot_pool_source source = {.struct_size = sizeof(cachalot_pool_source)};
  cachalot_pool_options options = {.struct_size = sizeof(cachalot_pool_options)};
  cachalot_address of_source = 0;
  cachalot_address of_driver = 0;
  source.allocate = source_allocate;
  source.free = source_free;
  source.user_data = &state;
  options.source = &source;
  CHECK_OK(cachalot_pool_create(with.allocator, 0, kPool, &options, &last_error));
  begin(with, NULL);
  of_source = allocate_on(with, 512, 0x10);
  end(with);
  of_driver = allocate_on(with, 512, 0x10);
  CHECK_EQUAL(is_from_source(with, of_source), 1);
  CHECK_EQUAL(is_from_source(with, of_driver), 0);
  free_block(with, of_driver);
  CHECK_OK(cachalot_set_caching_enabled(with.allocator, 0, &last_error));
  begin(with, NULL);
  of_driver = allocate_on(with, 512, 0x10);
  CHECK_EQUAL(is_from_source(with, of_driver), 0);
  end(with);
  free_block(with, of_driver);
  free_block(with, of_source);
  close_fixture(with);
}

static void what_is_not_a_pool_option_is_refused(void) {
  fixture with = open_fixture();
  source_state state = {0};
  cachalot_pool_source source = {.struct_size = sizeof(cachalot_pool_source)};
  cachalot_pool_options options = {.struct_size = sizeof(cachalot_pool_options)};
  source.user_data = &state;
  source.destroy = destroy_source;
  options.source = &source;
  CHECK_FAILS_WITH(cachalot_pool_create(with.allocator, 0, kPool, &options, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "source->allocate is NULL");
  CHECK_EQUAL(state.destroyed, 1);
  source.allocate = source_allocate;
  CHECK_FAILS_WITH(cachalot_pool_create(with.allocator, 0, kPool, &options, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "source->free is NULL");
  CHECK_EQUAL(state.destroyed, 2);
  source.free = source_free;
  options.flags = 16;
  CHECK_FAILS_WITH(cachalot_pool_create(with.allocator, 0, kPool, &options, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "flags is 0x10: only 0xf is known");
  CHECK_EQUAL(state.destroyed, 3);
  options.flags = 0;
  CHECK_FAILS(cachalot_pool_create(with.allocator, 9, kPool, &options, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(state.destroyed, 4);
  CHECK_FAILS(cachalot_pool_create(NULL, 0, kPool, &options, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(state.destroyed, 5);
  source.struct_size = 8;
  CHECK_FAILS(cachalot_pool_create(with.allocator, 0, kPool, &options, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(use_count(with), 0);
  close_fixture(with);
}

static void flags_and_their_functions_are_taken(void) {
  fixture with = open_fixture();
  cachalot_pool_options options = {.struct_size = sizeof(cachalot_pool_options)};
  options.flags = CACHALOT_POOL_USE_ON_OOM | CACHALOT_POOL_NO_SPLIT;
  CHECK_OK(cachalot_pool_create(with.allocator, 0, kPool, &options, &last_error));
  CHECK_OK(cachalot_pool_set_use_on_oom(with.allocator, 0, kPool, 0, &last_error));
  CHECK_OK(cachalot_pool_set_use_on_oom(with.allocator, 0, kPool, 1, &last_error));
  CHECK_FAILS_WITH(cachalot_pool_set_use_on_oom(with.allocator, 0, kPool, 3, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "use_on_oom is 3: expected 0 to 1");
  CHECK_OK(cachalot_pool_set_no_split(with.allocator, 0, kPool, &last_error));
  close_fixture(with);
}

static void whole_blocks_are_allocations_of_the_driver(void) {
  fixture with = open_fixture();
  cachalot_pool_options options = {.struct_size = sizeof(cachalot_pool_options)};
  cachalot_address first, block, base;
  uint64_t size;
  CHECK_OK(cachalot_pool_create(with.allocator, 0, kPool, NULL, &last_error));
  CHECK_OK(cachalot_pool_set_whole_blocks(with.allocator, 0, kPool, &last_error));
  options.flags = CACHALOT_POOL_WHOLE_BLOCKS;
  CHECK_OK(cachalot_pool_create(with.allocator, 0, kPool, &options, &last_error));
  begin(with, NULL);
  first = allocate_on(with, 5000, 0);
  block = allocate_on(with, 5000, 0);
  CHECK_OK(cachalot_base_allocation(with.allocator, block, &base, &size, &last_error));
  CHECK_EQUAL(base, block);
  CHECK_EQUAL(size, 5 * 1024);
  CHECK_OK(cachalot_free(with.allocator, first, &last_error));
  CHECK_OK(cachalot_free(with.allocator, block, &last_error));
  end(with);
  close_fixture(with);
}

static void live_blocks_of_a_pool_are_compared(void) {
  fixture with = open_fixture();
  cachalot_address live[2];
  int32_t equal = -1;
  begin(with, NULL);
  live[0] = allocate_on(with, 512, 0);
  live[1] = allocate_on(with, 512, 0);
  end(with);
  CHECK_OK(cachalot_pool_has_live(with.allocator, 0, kPool, live, 2, &equal, &last_error));
  CHECK_EQUAL(equal, 1);
  CHECK_OK(cachalot_pool_has_live(with.allocator, 0, kPool, live, 1, &equal, &last_error));
  CHECK_EQUAL(equal, 0);
  CHECK_FAILS(cachalot_pool_has_live(with.allocator, 0, kPool, NULL, 1, &equal, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  free_block(with, live[0]);
  free_block(with, live[1]);
  CHECK_OK(cachalot_pool_has_live(with.allocator, 0, kPool, NULL, 0, &equal, &last_error));
  CHECK_EQUAL(equal, 1);
  close_fixture(with);
}

static void expandable_segments_are_listed(void) {
  cachalot_allocator_options options = {.config = "expandable_segments:True"};
  fixture with = open_with(options);
  const cachalot_address small = allocate_on(with, 512, 0x10);
  const cachalot_address large = allocate_on(with, 5 * MIB, 0x10);
  cachalot_expandable_segment rows[2];
  uint64_t bytes = 0;
  uint64_t segments = 0;
  size_t count = 0;
  memset(rows, 0xff, sizeof rows);
  CHECK_OK(cachalot_expandable_segments(with.allocator, 0, NULL, 0, &count, &last_error));
  CHECK_EQUAL(count, 2);
  CHECK_OK(cachalot_expandable_segments(with.allocator, 0, rows, 1, &count, &last_error));
  CHECK(rows[0].stream == 0x10 && rows[0].is_small == 1 && rows[0].mapped_size == 2 * MIB);
  CHECK(rows[1].is_small == -1);
  CHECK_OK(cachalot_expandable_segments(with.allocator, 0, rows, 2, &count, &last_error));
  CHECK(rows[1].is_small == 0 && rows[1].mapped_size == 20 * MIB);
  CHECK_FAILS(cachalot_expandable_segments(with.allocator, 0, NULL, 1, &count, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_OK(cachalot_expandable_totals(with.allocator, &bytes, &segments, &last_error));
  CHECK_EQUAL(segments, 2);
  CHECK(bytes >= 2048 * MIB);
  free_block(with, small);
  free_block(with, large);
  close_fixture(with);
}

static void streams_have_reserve_classes(void) {
  fixture with = open_fixture();
  cachalot_reserve reserve = {.struct_size = sizeof(cachalot_reserve)};
  char name[32] = "";
  size_t length = 9;
  CHECK_OK(
      cachalot_get_reserve_class(with.allocator, 0x10, name, sizeof name, &length, &last_error));
  CHECK(name[0] == '\0' && length == 0);
  CHECK_OK(cachalot_set_reserve_class(with.allocator, 0x10, "graphs", &last_error));
  CHECK_OK(
      cachalot_get_reserve_class(with.allocator, 0x10, name, sizeof name, &length, &last_error));
  CHECK_TEXT(name, "graphs");
  CHECK_OK(cachalot_set_reserve_class(with.allocator, 0x10, NULL, &last_error));
  CHECK_OK(
      cachalot_get_reserve_class(with.allocator, 0x10, name, sizeof name, &length, &last_error));
  CHECK_TEXT(name, "");

  CHECK_OK(cachalot_get_reserve(with.allocator, 0, NULL, &reserve, &last_error));
  CHECK(reserve.has_reserve == 0 && reserve.is_class_known == 0 && reserve.reserve_bytes == 0);
  CHECK_EQUAL(reserve.segment_bytes, 1024 * MIB + 128 * MIB);
  CHECK_OK(cachalot_set_default_reserve(with.allocator, "graphs", 0.5, &last_error));
  CHECK_OK(cachalot_get_reserve(with.allocator, 0, "graphs", &reserve, &last_error));
  CHECK(reserve.has_reserve == 1 && reserve.is_class_known == 1);
  CHECK_EQUAL(reserve.reserve_bytes, 512 * MIB);
  CHECK_EQUAL(reserve.segment_bytes, 512 * MIB);
  CHECK_FAILS(cachalot_set_default_reserve(with.allocator, "graphs", 0, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_set_default_reserve(with.allocator, NULL, 0.5, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  close_fixture(with);
}

static void the_older_release_has_no_reserve_classes(void) {
  fixture with = open_old_fixture();
  CHECK_FAILS(cachalot_set_reserve_class(with.allocator, 0x10, "graphs", &last_error),
              CACHALOT_ERROR_NOT_SUPPORTED);
  close_fixture(with);
}

int main(void) {
  RUN(new_ids_are_of_two_kinds);
  RUN(a_pool_is_created_joined_and_released);
  RUN(ids_have_exactly_one_half);
  RUN(misuse_of_a_pool_is_an_invalid_state);
  RUN(a_routing_takes_what_its_kind_says);
  RUN(a_routing_can_follow_a_capture);
  RUN(the_data_of_a_routing_is_given_back_once);
  RUN(a_pool_can_have_its_own_source);
  RUN(a_block_says_whether_a_source_gave_its_memory);
  RUN(what_is_not_a_pool_option_is_refused);
  RUN(flags_and_their_functions_are_taken);
  RUN(whole_blocks_are_allocations_of_the_driver);
  RUN(live_blocks_of_a_pool_are_compared);
  RUN(expandable_segments_are_listed);
  RUN(streams_have_reserve_classes);
  RUN(the_older_release_has_no_reserve_classes);
  return report();
}
