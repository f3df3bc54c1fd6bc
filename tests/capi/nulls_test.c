/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* NULL for a handle, an out pointer or a needed argument, in every function: refused, and harmless.
 */
#include "check.h"

#define REFUSES(call) CHECK_FAILS(call, CACHALOT_ERROR_INVALID_ARGUMENT)

static const cachalot_pool_id kPool = {0, 1};

static void no_allocator_is_refused_everywhere(void) {
  const cachalot_request request = {.struct_size = sizeof(cachalot_request), .size = 1};
  const cachalot_recorder_options recorder = {.struct_size = sizeof recorder,
                                              .path = "/dev/null/x"};
  cachalot_recorder_stats recorder_stats = {.struct_size = sizeof recorder_stats};
  const cachalot_history_options history = {.struct_size = sizeof(cachalot_history_options)};
  cachalot_settings settings = {.struct_size = sizeof(cachalot_settings)};
  cachalot_block block = {.struct_size = sizeof(cachalot_block)};
  cachalot_device_totals totals = {.struct_size = sizeof(cachalot_device_totals)};
  cachalot_stats stats = {.struct_size = sizeof(cachalot_stats)};
  cachalot_pool_stats pool_stats = {.struct_size = sizeof(cachalot_pool_stats)};
  cachalot_label_stats label_stats = {.struct_size = sizeof(cachalot_label_stats)};
  cachalot_reserve reserve = {.struct_size = sizeof(cachalot_reserve)};
  cachalot_pool_id id = {0, 0};
  cachalot_tenant_stats tenant_stats = {.struct_size = sizeof(cachalot_tenant_stats)};
  cachalot_pinned_stats pinned_stats = {.struct_size = sizeof(cachalot_pinned_stats)};
  cachalot_policy policy = {.struct_size = sizeof(cachalot_policy)};
  cachalot_policy_stats policy_stats = {.struct_size = sizeof(cachalot_policy_stats)};
  cachalot_tenant* tenant = NULL;
  cachalot_snapshot* snapshot = NULL;
  cachalot_report* report_of_none = NULL;
  cachalot_checkpoint* checkpoint = NULL;
  cachalot_shared_block* shared_block = NULL;
  cachalot_opened_block* opened_block = NULL;
  cachalot_error* const error = &last_error;
  cachalot_address address = 77;
  uint64_t number = 77;
  double fraction = 77;
  size_t size = 77;
  int32_t count = 77;
  char text[4] = "old";
  void* memory = NULL;

  REFUSES(cachalot_allocate(NULL, 1, 0, 0, &address, error));
  REFUSES(cachalot_allocate_with(NULL, &request, &address, error));
  REFUSES(cachalot_free(NULL, 1, error));
  REFUSES(cachalot_free_on_stream(NULL, 1, 0, error));
  REFUSES(cachalot_record_stream(NULL, 1, 0, error));
  REFUSES(cachalot_record_stream_on_stream(NULL, 1, 0, 0, error));
  REFUSES(cachalot_get_block(NULL, 1, &block, error));
  REFUSES(cachalot_base_allocation(NULL, 1, &address, &number, error));
  REFUSES(cachalot_empty_cache(NULL, error));
  REFUSES(cachalot_empty_device_cache(NULL, 0, error));
  REFUSES(cachalot_empty_device_cache_on_stream(NULL, 0, 0, error));
  REFUSES(cachalot_release_context(NULL, 0, error));
  REFUSES(cachalot_largest_block(NULL, 0, 0, &number, error));
  REFUSES(cachalot_largest_block_on_stream(NULL, 0, 0, 0, &number, error));
  REFUSES(cachalot_set_caching_enabled(NULL, 1, error));
  REFUSES(cachalot_set_memory_fraction(NULL, 0, 1, error));
  REFUSES(cachalot_memory_fraction(NULL, 0, &fraction, error));
  REFUSES(cachalot_set_memory_limit(NULL, 0, 1, error));
  REFUSES(cachalot_memory_limit(NULL, 0, &number, error));
  REFUSES(cachalot_configure(NULL, "", error));
  REFUSES(cachalot_get_config(NULL, text, sizeof text, &size, error));
  REFUSES(cachalot_get_settings(NULL, &settings, error));
  REFUSES(cachalot_set_settings(NULL, &settings, error));
  REFUSES(cachalot_update_config(NULL, "", error));
  REFUSES(cachalot_set_max_split_size(NULL, 1, error));
  REFUSES(cachalot_set_max_non_split_rounding_size(NULL, 1, error));
  REFUSES(cachalot_set_large_segment_size(NULL, 1, error));
  REFUSES(cachalot_set_garbage_collection_threshold(NULL, 0.5, error));
  REFUSES(cachalot_set_per_process_memory_fraction(NULL, 0.5, error));
  REFUSES(cachalot_set_roundup_bypass_threshold(NULL, 1, error));
  REFUSES(cachalot_set_expandable_segments(NULL, 1, error));
  REFUSES(cachalot_set_release_lock_on_cudamalloc(NULL, 1, error));
  REFUSES(cachalot_set_graph_capture_record_stream_reuse(NULL, 1, error));
  REFUSES(cachalot_set_throw_on_cudamalloc_oom(NULL, 1, error));
  REFUSES(cachalot_set_pinned_use_background_threads(NULL, 1, error));
  REFUSES(cachalot_set_pinned_use_cuda_host_register(NULL, 1, error));
  REFUSES(cachalot_set_pinned_free_catch_all(NULL, 1, error));
  REFUSES(cachalot_set_pinned_num_register_threads(NULL, 1, error));
  REFUSES(cachalot_set_pinned_reserve_segment_size_mb(NULL, 1, error));
  REFUSES(cachalot_set_pinned_max_round_threshold(NULL, 1, error));
  REFUSES(cachalot_set_pinned_max_cached_size(NULL, 1, error));
  REFUSES(cachalot_set_roundup_power2_divisions(NULL, &number, 1, error));
  REFUSES(cachalot_enable_peer_access(NULL, 0, 1, error));
  REFUSES(cachalot_get_device_totals(NULL, 0, &totals, error));
  REFUSES(cachalot_check(NULL, error));

  REFUSES(cachalot_get_stats(NULL, 0, &stats, error));
  REFUSES(cachalot_reset_peak_stats(NULL, 0, error));
  REFUSES(cachalot_reset_accumulated_stats(NULL, 0, error));
  REFUSES(cachalot_memory_summary(NULL, 0, 0, text, sizeof text, &size, error));
  REFUSES(cachalot_pool_stats_count(NULL, 0, &size, error));
  REFUSES(cachalot_pool_stats_at(NULL, 0, 0, &pool_stats, error));
  REFUSES(cachalot_label_stats_count(NULL, 0, &size, error));
  REFUSES(cachalot_label_stats_at(NULL, 0, 0, &label_stats, error));

  REFUSES(cachalot_record_history(NULL, &history, error));
  REFUSES(cachalot_context_of(NULL, 1, &number, error));
  REFUSES(cachalot_context_text(NULL, 1, text, sizeof text, &size, error));
  REFUSES(cachalot_annotate(NULL, 1, "text", error));
  REFUSES(cachalot_detach(NULL, 1, error));
  REFUSES(cachalot_recorder_start(NULL, &recorder, &number, error));
  REFUSES(cachalot_recorder_flush(NULL, 1, error));
  REFUSES(cachalot_recorder_stop(NULL, 1, error));
  REFUSES(cachalot_recorder_get_stats(NULL, 1, &recorder_stats, error));
  REFUSES(cachalot_recorder_path(NULL, 1, text, sizeof text, &size, error));
  REFUSES(cachalot_set_oom_dump(NULL, NULL, error));
  REFUSES(cachalot_snapshot_take(NULL, NULL, &snapshot, error));

  REFUSES(cachalot_report_create(NULL, NULL, &report_of_none, error));
  REFUSES(cachalot_metrics_text(NULL, text, sizeof text, &size, error));
  REFUSES(cachalot_trim(NULL, 0, 0, 0, NULL, error));
  REFUSES(cachalot_trim_at(NULL, 0, 0, 0, 0, NULL, error));

  REFUSES(cachalot_pool_new_id(NULL, 0, &id, error));
  REFUSES(cachalot_pool_create(NULL, 0, kPool, NULL, error));
  REFUSES(cachalot_pool_begin(NULL, 0, kPool, NULL, error));
  REFUSES(cachalot_pool_end(NULL, 0, kPool, error));
  REFUSES(cachalot_pool_end_on_stream(NULL, 0, kPool, 0, error));
  REFUSES(cachalot_pool_release(NULL, 0, kPool, error));
  REFUSES(cachalot_pool_empty(NULL, 0, kPool, error));
  REFUSES(cachalot_pool_empty_on_stream(NULL, 0, kPool, 0, error));
  REFUSES(cachalot_pool_set_use_on_oom(NULL, 0, kPool, 1, error));
  REFUSES(cachalot_pool_set_no_split(NULL, 0, kPool, error));
  REFUSES(cachalot_pool_set_pinned(NULL, 0, kPool, 1, error));
  REFUSES(cachalot_pool_set_whole_blocks(NULL, 0, kPool, error));
  REFUSES(cachalot_pool_use_count(NULL, 0, kPool, &count, error));
  REFUSES(cachalot_pool_has_live(NULL, 0, kPool, NULL, 0, &count, error));
  REFUSES(cachalot_capture_begin(NULL, 0, error));
  REFUSES(cachalot_capture_end(NULL, 0, error));
  REFUSES(cachalot_expandable_segments(NULL, 0, NULL, 0, &size, error));
  REFUSES(cachalot_expandable_totals(NULL, &number, &number, error));
  REFUSES(cachalot_set_reserve_class(NULL, 0, "", error));
  REFUSES(cachalot_get_reserve_class(NULL, 0, text, sizeof text, &size, error));
  REFUSES(cachalot_set_default_reserve(NULL, "a", 1, error));
  REFUSES(cachalot_get_reserve(NULL, 0, "", &reserve, error));

  REFUSES(cachalot_get_policy(NULL, &policy, error));
  REFUSES(cachalot_get_policy_stats(NULL, 0, &policy_stats, error));
  REFUSES(cachalot_pin(NULL, 1, 1, error));
  REFUSES(cachalot_unpin(NULL, 1, 1, error));
  REFUSES(cachalot_stream_ended(NULL, 0, 0, error));

  REFUSES(cachalot_tenant_create(NULL, NULL, &tenant, error));
  REFUSES(cachalot_allocate_for(NULL, NULL, 1, 0, 0, &address, error));
  REFUSES(cachalot_tenant_count(NULL, &size, error));
  REFUSES(cachalot_tenant_stats_at(NULL, 0, 0, &tenant_stats, error));

  REFUSES(cachalot_checkpoint_take(NULL, 0, kPool, &checkpoint, error));
  REFUSES(cachalot_checkpoint_apply(NULL, 0, (cachalot_checkpoint*)&id, NULL, error));
  REFUSES(cachalot_shared_block_create(NULL, 1, &shared_block, error));
  REFUSES(cachalot_shared_block_ticket(NULL, text, sizeof text, &size, error));
  CHECK(cachalot_shared_block_users(NULL) == 0);
  cachalot_shared_block_destroy(NULL);
  REFUSES(cachalot_opened_block_create(NULL, 0, "ticket", &opened_block, error));
  REFUSES(cachalot_opened_block_address(NULL, &address, &number, error));
  CHECK(cachalot_opened_block_has_sharer(NULL) == 0);
  cachalot_opened_block_destroy(NULL);
  CHECK(shared_block == NULL && opened_block == NULL);
  REFUSES(cachalot_close_shared(NULL, 1, error));
  REFUSES(cachalot_share(NULL, 1, text, sizeof text, &size, &number, error));
  REFUSES(cachalot_open_shared(NULL, 0, text, sizeof text, &address, error));
  REFUSES(cachalot_copy(NULL, 1, 0, 1, 0, 1, 0, error));
  REFUSES(cachalot_pinned_allocate(NULL, 1, &memory, error));
  REFUSES(cachalot_pinned_allocate_on_stream(NULL, 1, 0, 0, &memory, error));
  REFUSES(cachalot_pinned_free(NULL, text, error));
  REFUSES(cachalot_pinned_record_stream(NULL, text, 0, 0, error));
  REFUSES(cachalot_pinned_size(NULL, text, &number, error));
  REFUSES(cachalot_pinned_empty_cache(NULL, error));
  REFUSES(cachalot_pinned_get_stats(NULL, &pinned_stats, error));
  REFUSES(cachalot_pinned_reset_peak_stats(NULL, error));
  REFUSES(cachalot_pinned_reset_accumulated_stats(NULL, error));
  REFUSES(cachalot_pinned_pool_begin(NULL, 0, kPool, NULL, error));
  REFUSES(cachalot_pinned_pool_end(NULL, kPool, error));
  REFUSES(cachalot_pinned_pool_release(NULL, kPool, error));
  CHECK(cachalot_pinned_allocator(NULL) == NULL);

  CHECK(address == 77 && number == 77 && fraction == 77.0 && size == 77 && count == 77);
  CHECK(tenant == NULL && policy.policy == 0);
  CHECK(snapshot == NULL && report_of_none == NULL && checkpoint == NULL && memory == NULL &&
        id.first == 0);
  CHECK_TEXT(text, "old");
  CHECK_TEXT(last_error.message, "allocator is NULL");
}

static void no_tenant_is_refused_everywhere(void) {
  fixture with = open_fixture();
  cachalot_tenant_stats stats = {.struct_size = sizeof(cachalot_tenant_stats)};
  cachalot_tenant* tenant = NULL;
  cachalot_error* const error = &last_error;
  cachalot_address address = 77;
  size_t count = 77;

  REFUSES(cachalot_allocate_for(with.allocator, NULL, 1, 0, 0, &address, error));
  REFUSES(cachalot_tenant_begin(NULL, error));
  REFUSES(cachalot_tenant_end(NULL, error));
  REFUSES(cachalot_tenant_set_bytes(NULL, 0, 1, 1, error));
  REFUSES(cachalot_tenant_set_priority(NULL, 1, error));
  REFUSES(cachalot_get_tenant_stats(NULL, 0, &stats, error));
  CHECK_TEXT(last_error.message, "tenant is NULL");
  CHECK_OK(cachalot_tenant_destroy(NULL, error));

  REFUSES(cachalot_tenant_create(with.allocator, NULL, NULL, error));
  REFUSES(cachalot_tenant_count(with.allocator, NULL, error));
  CHECK_OK(cachalot_tenant_count(with.allocator, &count, error));
  CHECK_EQUAL(count, 0);
  CHECK_OK(cachalot_tenant_create(with.allocator, NULL, &tenant, error));
  REFUSES(cachalot_allocate_for(with.allocator, tenant, 1, 0, 0, NULL, error));
  REFUSES(cachalot_allocate_for(with.allocator, tenant, 1, 2, 0, &address, error));
  REFUSES(cachalot_get_tenant_stats(tenant, 0, NULL, error));
  REFUSES(cachalot_get_tenant_stats(tenant, 2, &stats, error));
  stats.struct_size = sizeof(size_t);
  REFUSES(cachalot_get_tenant_stats(tenant, 0, &stats, error));
  CHECK_OK(cachalot_tenant_destroy(tenant, error));
  CHECK(address == 77 && stats.id == 0);
  close_fixture(with);
}

static void nowhere_to_put_the_result_is_refused(void) {
  fixture with = open_fixture();
  cachalot_allocator* const allocator = with.allocator;
  cachalot_error* const error = &last_error;
  const cachalot_address block = allocate_on(with, 512, 0);
  const cachalot_request request = {.struct_size = sizeof(cachalot_request), .size = 512};
  cachalot_address address = 77;
  uint64_t number = 77;

  REFUSES(cachalot_allocator_create(NULL, NULL, error));
  REFUSES(cachalot_allocate(allocator, 512, 0, 0, NULL, error));
  REFUSES(cachalot_allocate_with(allocator, &request, NULL, error));
  REFUSES(cachalot_get_block(allocator, block, NULL, error));
  REFUSES(cachalot_base_allocation(allocator, block, NULL, &number, error));
  REFUSES(cachalot_base_allocation(allocator, block, &address, NULL, error));
  REFUSES(cachalot_largest_block(allocator, 0, 0, NULL, error));
  REFUSES(cachalot_largest_block_on_stream(allocator, 0, 0, 0, NULL, error));
  REFUSES(cachalot_memory_fraction(allocator, 0, NULL, error));
  REFUSES(cachalot_memory_limit(allocator, 0, NULL, error));
  REFUSES(cachalot_get_settings(allocator, NULL, error));
  REFUSES(cachalot_get_device_totals(allocator, 0, NULL, error));
  REFUSES(cachalot_get_stats(allocator, 0, NULL, error));
  REFUSES(cachalot_policy_read("serving", NULL, error));
  REFUSES(cachalot_get_policy(allocator, NULL, error));
  REFUSES(cachalot_get_policy_stats(allocator, 0, NULL, error));
  REFUSES(cachalot_pool_stats_count(allocator, 0, NULL, error));
  REFUSES(cachalot_label_stats_count(allocator, 0, NULL, error));
  REFUSES(cachalot_context_of(allocator, block, NULL, error));
  REFUSES(cachalot_snapshot_take(allocator, NULL, NULL, error));
  REFUSES(cachalot_report_create(allocator, NULL, NULL, error));
  REFUSES(cachalot_pool_new_id(allocator, 0, NULL, error));
  REFUSES(cachalot_pool_use_count(allocator, 0, kPool, NULL, error));
  REFUSES(cachalot_pool_has_live(allocator, 0, kPool, NULL, 0, NULL, error));
  REFUSES(cachalot_expandable_segments(allocator, 0, NULL, 0, NULL, error));
  REFUSES(cachalot_expandable_totals(allocator, NULL, &number, error));
  REFUSES(cachalot_expandable_totals(allocator, &number, NULL, error));
  REFUSES(cachalot_get_reserve(allocator, 0, "", NULL, error));

  CHECK_EQUAL(cachalot_memory_allocated(allocator, 0), 512);
  CHECK(address == 77 && number == 77);
  free_block(with, block);
  close_fixture(with);
}

static void an_argument_that_is_needed_is_refused_if_it_is_missing(void) {
  fixture with = open_fixture();
  cachalot_allocator* const allocator = with.allocator;
  cachalot_error* const error = &last_error;
  cachalot_policy policy = {.struct_size = sizeof(cachalot_policy)};
  cachalot_address address = 77;
  REFUSES(cachalot_allocate_with(allocator, NULL, &address, error));
  CHECK_TEXT(last_error.message, "request is NULL");
  REFUSES(cachalot_policy_read(NULL, &policy, error));
  CHECK_TEXT(last_error.message, "text is NULL");
  REFUSES(cachalot_configure(allocator, NULL, error));
  REFUSES(cachalot_set_settings(allocator, NULL, error));
  REFUSES(cachalot_update_config(allocator, NULL, error));
  REFUSES(cachalot_set_roundup_power2_divisions(allocator, NULL, 1, error));
  REFUSES(cachalot_record_history(allocator, NULL, error));
  REFUSES(cachalot_set_default_reserve(allocator, NULL, 1, error));
  CHECK_EQUAL(address, 77);
  close_fixture(with);
}

static void no_report_is_refused_or_empty(void) {
  cachalot_report_numbers numbers = {.struct_size = sizeof(cachalot_report_numbers)};
  cachalot_report_holder holder = {.struct_size = sizeof(cachalot_report_holder)};
  cachalot_report_reason reason = {.struct_size = sizeof(cachalot_report_reason)};
  cachalot_error* const error = &last_error;
  cachalot_report* made = NULL;
  fixture with = open_fixture();
  size_t size = 77;
  REFUSES(cachalot_report_text(NULL, NULL, 0, &size, error));
  REFUSES(cachalot_report_json(NULL, NULL, 0, &size, error));
  CHECK_EQUAL(cachalot_report_get_numbers(NULL, &numbers), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_report_get_holder(NULL, 0, &holder), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_report_get_reason(NULL, 0, &reason), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_report_holder_count(NULL) + cachalot_report_reason_count(NULL), 0);
  CHECK_TEXT(cachalot_report_advice(NULL), "");
  cachalot_report_destroy(NULL);
  CHECK_EQUAL(size, 77);
  CHECK_OK(cachalot_report_create(with.allocator, NULL, &made, error));
  CHECK_EQUAL(cachalot_report_get_numbers(made, NULL), CACHALOT_ERROR_INVALID_ARGUMENT);
  numbers.struct_size = sizeof(size_t);
  CHECK_EQUAL(cachalot_report_get_numbers(made, &numbers), CACHALOT_ERROR_INVALID_ARGUMENT);
  cachalot_report_destroy(made);
  close_fixture(with);
}

/* Each out struct without a size, and with one that is shorter than in the first version. */
static void no_recorder_and_no_trace_is_refused(void) {
  fixture with = open_fixture();
  const cachalot_recorder_options options = {.struct_size = sizeof options, .path = "/dev/null/x"};
  cachalot_error* const error = &last_error;
  char text[4] = "old";
  uint64_t id = 77;
  REFUSES(cachalot_recorder_start(with.allocator, NULL, &id, error));
  REFUSES(cachalot_recorder_start(with.allocator, &options, NULL, error));
  REFUSES(cachalot_recorder_get_stats(with.allocator, 1, NULL, error));
  CHECK_OK(cachalot_set_oom_dump(with.allocator, NULL, error));
  CHECK_EQUAL(cachalot_trace_context_text(NULL, 1, text, sizeof text, NULL),
              CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(id, 77);
  CHECK_TEXT(text, "old");
  close_fixture(with);
}

static void out_structs_shorter_than_those_of_the_first_version_are_refused(void) {
  fixture with = open_fixture();
  cachalot_allocator* const allocator = with.allocator;
  cachalot_error* const error = &last_error;
  const cachalot_address address = allocate_on(with, 512, 0);
  size_t size;
  for (size = 0; size <= sizeof(size_t) * 2; size += sizeof(size_t)) {
    cachalot_block block = {.struct_size = size};
    cachalot_settings settings = {.struct_size = size};
    cachalot_device_totals totals = {.struct_size = size};
    cachalot_stats stats = {.struct_size = size};
    cachalot_reserve reserve = {.struct_size = size};
    cachalot_policy policy = {.struct_size = size};
    cachalot_policy_stats policy_stats = {.struct_size = size};
    REFUSES(cachalot_get_block(allocator, address, &block, error));
    REFUSES(cachalot_get_settings(allocator, &settings, error));
    REFUSES(cachalot_get_device_totals(allocator, 0, &totals, error));
    REFUSES(cachalot_get_stats(allocator, 0, &stats, error));
    REFUSES(cachalot_get_reserve(allocator, 0, "", &reserve, error));
    REFUSES(cachalot_policy_read("serving", &policy, error));
    REFUSES(cachalot_get_policy(allocator, &policy, error));
    REFUSES(cachalot_get_policy_stats(allocator, 0, &policy_stats, error));
    CHECK(block.size == 0 && settings.large_segment_size == 0 && totals.total == 0);
    CHECK(stats.num_device_alloc == 0 && reserve.segment_bytes == 0);
    CHECK(policy.policy == 0 && policy_stats.pages_created == 0);
  }
  free_block(with, address);
  close_fixture(with);
}

static void an_out_struct_of_a_newer_caller_is_written_as_far_as_it_is_known(void) {
  struct {
    cachalot_block known;
    uint64_t unknown;
  } newer = {{0}, 77};
  fixture with = open_fixture();
  const cachalot_address address = allocate_on(with, 512, 0);
  newer.known.struct_size = sizeof newer;
  CHECK_OK(cachalot_get_block(with.allocator, address, &newer.known, &last_error));
  CHECK_EQUAL(newer.known.size, 512);
  CHECK_EQUAL(newer.known.struct_size, sizeof newer);
  CHECK_EQUAL(newer.unknown, 77);
  free_block(with, address);
  close_fixture(with);
}

static void the_error_record_may_be_missing(void) {
  fixture with = open_fixture();
  CHECK_EQUAL(cachalot_free(with.allocator, 512, NULL), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_free(NULL, 512, NULL), CACHALOT_ERROR_INVALID_ARGUMENT);
  CHECK_EQUAL(cachalot_label_pop(NULL), CACHALOT_ERROR_INVALID_STATE);
  close_fixture(with);
}

int main(void) {
  RUN(no_allocator_is_refused_everywhere);
  RUN(no_tenant_is_refused_everywhere);
  RUN(nowhere_to_put_the_result_is_refused);
  RUN(an_argument_that_is_needed_is_refused_if_it_is_missing);
  RUN(no_report_is_refused_or_empty);
  RUN(no_recorder_and_no_trace_is_refused);
  RUN(out_structs_shorter_than_those_of_the_first_version_are_refused);
  RUN(an_out_struct_of_a_newer_caller_is_written_as_far_as_it_is_known);
  RUN(the_error_record_may_be_missing);
  return report();
}
