/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The cache, limits, settings, devices. */
#include "check.h"

static void empty_cache_gives_the_memory_of_all_devices_back(void) {
  fixture with = open_fixture();
  cachalot_address other = 0;
  free_block(with, allocate_on(with, 512, 0));
  CHECK_OK(cachalot_allocate(with.allocator, 512, 1, 0, &other, &last_error));
  free_block(with, other);
  CHECK_EQUAL(cachalot_memory_reserved(with.allocator, 0), 2 * MIB);
  CHECK_EQUAL(cachalot_memory_reserved(with.allocator, 1), 2 * MIB);
  CHECK_OK(cachalot_empty_cache(with.allocator, &last_error));
  CHECK_EQUAL(cachalot_memory_reserved(with.allocator, 0), 0);
  CHECK_EQUAL(cachalot_memory_reserved(with.allocator, 1), 0);
  close_fixture(with);
}

static void one_device_can_be_emptied_alone(void) {
  fixture with = open_fixture();
  cachalot_address other = 0;
  free_block(with, allocate_on(with, 512, 0));
  CHECK_OK(cachalot_allocate(with.allocator, 512, 1, 0, &other, &last_error));
  free_block(with, other);
  CHECK_OK(cachalot_empty_device_cache(with.allocator, 1, &last_error));
  CHECK_EQUAL(cachalot_memory_reserved(with.allocator, 0), 2 * MIB);
  CHECK_EQUAL(cachalot_memory_reserved(with.allocator, 1), 0);
  CHECK_OK(cachalot_empty_device_cache_on_stream(with.allocator, 0, 0x10, &last_error));
  CHECK_EQUAL(cachalot_memory_reserved(with.allocator, 0), 0);
  close_fixture(with);
}

static void the_largest_cached_block_is_known(void) {
  fixture with = open_fixture();
  uint64_t size = 0;
  CHECK_OK(cachalot_largest_block(with.allocator, 0, 0, &size, &last_error));
  CHECK_EQUAL(size, 1024 * MIB);
  free_block(with, allocate_on(with, 30 * MIB, 0));
  CHECK_OK(cachalot_largest_block(with.allocator, 0, 1, &size, &last_error));
  CHECK_EQUAL(size, 30 * MIB);
  close_fixture(with);
}

static void without_caching_each_request_goes_to_the_driver(void) {
  fixture with = open_fixture();
  cachalot_block block = {.struct_size = sizeof(cachalot_block)};
  cachalot_address uncached;
  CHECK_EQUAL(cachalot_is_caching_enabled(with.allocator), 1);
  CHECK_OK(cachalot_set_caching_enabled(with.allocator, 0, &last_error));
  CHECK_EQUAL(cachalot_is_caching_enabled(with.allocator), 0);
  uncached = allocate_on(with, 1000, 0);
  CHECK_OK(cachalot_set_caching_enabled(with.allocator, 1, &last_error));
  CHECK_OK(cachalot_get_block(with.allocator, uncached, &block, &last_error));
  CHECK(block.uncached == 1 && block.requested == 1000);
  CHECK_EQUAL(cachalot_memory_allocated(with.allocator, 0), 0);
  free_block(with, uncached);
  CHECK_FAILS_WITH(cachalot_set_caching_enabled(with.allocator, 2, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "enabled is 2: expected 0 to 1");
  close_fixture(with);
}

static void a_fraction_and_a_limit_are_the_same_thing(void) {
  fixture with = open_fixture();
  double fraction = 0;
  uint64_t bytes = 0;
  CHECK_OK(cachalot_memory_fraction(with.allocator, 0, &fraction, &last_error));
  CHECK(fraction == 1.0);
  CHECK_OK(cachalot_memory_limit(with.allocator, 0, &bytes, &last_error));
  CHECK(bytes == UINT64_MAX);
  CHECK_OK(cachalot_set_memory_fraction(with.allocator, 0, 0.5, &last_error));
  CHECK_OK(cachalot_memory_limit(with.allocator, 0, &bytes, &last_error));
  CHECK_EQUAL(bytes, 512 * MIB);
  CHECK_OK(cachalot_set_memory_limit(with.allocator, 0, 256 * MIB, &last_error));
  CHECK_OK(cachalot_memory_fraction(with.allocator, 0, &fraction, &last_error));
  CHECK(fraction == 0.25);
  CHECK_FAILS(cachalot_set_memory_fraction(with.allocator, 0, 1.5, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_set_memory_fraction(with.allocator, 0, -0.5, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_set_memory_fraction(with.allocator, 2, 0.5, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_OK(cachalot_memory_limit(with.allocator, 0, &bytes, &last_error));
  CHECK_EQUAL(bytes, 256 * MIB);
  close_fixture(with);
}

static void options_can_be_changed_by_string(void) {
  fixture with = open_fixture();
  char config[64] = "";
  char small[4] = "";
  size_t length = 0;
  CHECK_OK(cachalot_configure(with.allocator, "max_split_size_mb:128", &last_error));
  CHECK_OK(cachalot_get_config(with.allocator, config, sizeof config, &length, &last_error));
  CHECK_TEXT(config, "max_split_size_mb:128");
  CHECK_EQUAL(length, strlen(config));
  CHECK_OK(cachalot_get_config(with.allocator, small, sizeof small, &length, &last_error));
  CHECK_TEXT(small, "max");
  CHECK_EQUAL(length, strlen(config));
  CHECK_FAILS(cachalot_configure(with.allocator, "no_such_option:1", &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_get_config(with.allocator, NULL, 4, &length, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  close_fixture(with);
}

static cachalot_settings settings_of(fixture with) {
  cachalot_settings settings = {.struct_size = sizeof(cachalot_settings)};
  CHECK_OK(cachalot_get_settings(with.allocator, &settings, &last_error));
  CHECK_EQUAL(settings.struct_size, sizeof settings);
  return settings;
}

static void settings_are_read_changed_and_written_back(void) {
  fixture with = open_fixture();
  cachalot_settings settings = settings_of(with);
  CHECK(settings.max_split_size == UINT64_MAX && settings.expandable_segments == 0);
  CHECK_EQUAL(settings.large_segment_size, 20 * MIB);
  settings.max_split_size = 64 * MIB;
  settings.garbage_collection_threshold = 0.75;
  settings.roundup_power2_divisions[3] = 8;
  settings.release_lock_on_cudamalloc = 1;
  CHECK_OK(cachalot_set_settings(with.allocator, &settings, &last_error));
  settings = settings_of(with);
  CHECK_EQUAL(settings.max_split_size, 64 * MIB);
  CHECK(settings.garbage_collection_threshold == 0.75);
  CHECK_EQUAL(settings.roundup_power2_divisions[3], 8);
  CHECK_EQUAL(settings.release_lock_on_cudamalloc, 1);
  close_fixture(with);
}

static void a_bad_setting_changes_nothing(void) {
  fixture with = open_fixture();
  const cachalot_settings before = settings_of(with);
  cachalot_settings settings = before;
  cachalot_settings after;
  settings.max_split_size = 64 * MIB;
  settings.garbage_collection_threshold = 1.5;
  CHECK_FAILS(cachalot_set_settings(with.allocator, &settings, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  settings = before;
  settings.max_split_size = 64 * MIB;
  settings.expandable_segments = 2;
  CHECK_FAILS_WITH(cachalot_set_settings(with.allocator, &settings, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "expandable_segments is 2: expected 0 to 1");
  after = settings_of(with);
  CHECK(memcmp(&before, &after, sizeof before) == 0);
  close_fixture(with);
}

static int32_t some_memory(void* user_data, int32_t device, uint64_t* out_free,
                           uint64_t* out_total) {
  (void)user_data, (void)device;
  *out_free = *out_total = 1024 * MIB;
  return CACHALOT_DRIVER_SUCCESS;
}

static int32_t no_range(void* user_data, int32_t device, uint64_t size,
                        cachalot_address* out_address) {
  (void)user_data, (void)device, (void)size, (void)out_address;
  return CACHALOT_DRIVER_OUT_OF_MEMORY;
}

static int32_t no_free(void* user_data, int32_t device, cachalot_address address) {
  (void)user_data, (void)device, (void)address;
  return CACHALOT_DRIVER_SUCCESS;
}

static void the_driver_must_be_able_to_serve_expandable_segments(void) {
  cachalot_allocator_options options = {.struct_size = sizeof(cachalot_allocator_options)};
  cachalot_device_ops ops = {.struct_size = sizeof(cachalot_device_ops)};
  cachalot_allocator* allocator = NULL;
  ops.memory_info = some_memory;
  ops.allocate = no_range;
  ops.free = no_free;
  CHECK_OK(cachalot_driver_create_custom(&ops, 1, NULL, NULL, &options.driver, &last_error));
  options.config = "expandable_segments:True";
  CHECK_FAILS(cachalot_allocator_create(&options, &allocator, &last_error),
              CACHALOT_ERROR_NOT_SUPPORTED);
  options.config = "";
  CHECK_OK(cachalot_allocator_create(&options, &allocator, &last_error));
  CHECK_FAILS(cachalot_configure(allocator, "expandable_segments:True", &last_error),
              CACHALOT_ERROR_NOT_SUPPORTED);
  CHECK_OK(cachalot_allocator_destroy(allocator, &last_error));
  cachalot_driver_destroy(options.driver);
}

static void peers_are_devices(void) {
  fixture with = open_fixture();
  CHECK_OK(cachalot_enable_peer_access(with.allocator, 0, 1, &last_error));
  CHECK_FAILS(cachalot_enable_peer_access(with.allocator, 0, 2, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_FAILS(cachalot_enable_peer_access(with.allocator, -1, 0, &last_error),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  close_fixture(with);
}

static void totals_say_where_memory_is(void) {
  fixture with = open_fixture();
  const cachalot_address block = allocate_on(with, 512, 0);
  cachalot_device_totals totals = {.struct_size = sizeof(cachalot_device_totals)};
  CHECK_OK(cachalot_get_device_totals(with.allocator, 0, &totals, &last_error));
  CHECK_EQUAL(totals.total, 1024 * MIB);
  CHECK_EQUAL(totals.used, 2 * MIB);
  CHECK_EQUAL(totals.reserved, 2 * MIB);
  CHECK_EQUAL(totals.outside, 0);
  free_block(with, block);
  close_fixture(with);
}

int main(void) {
  RUN(empty_cache_gives_the_memory_of_all_devices_back);
  RUN(one_device_can_be_emptied_alone);
  RUN(the_largest_cached_block_is_known);
  RUN(without_caching_each_request_goes_to_the_driver);
  RUN(a_fraction_and_a_limit_are_the_same_thing);
  RUN(options_can_be_changed_by_string);
  RUN(settings_are_read_changed_and_written_back);
  RUN(a_bad_setting_changes_nothing);
  RUN(the_driver_must_be_able_to_serve_expandable_segments);
  RUN(peers_are_devices);
  RUN(totals_say_where_memory_is);
  return report();
}
