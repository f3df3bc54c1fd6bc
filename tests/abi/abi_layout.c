/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The binary interface in numbers: the size of every struct, the place and size of every field, the
 * value of every constant. It compiles only if all hold. A struct may grow at its end: then its
 * SIZE changes here and lines are added; any other change breaks programs that are already built.
 */
#include <stddef.h>

#include "cachalot/cachalot.h"

#define SIZE(type, size) _Static_assert(sizeof(type) == (size), "size of " #type)
#define FIELD(type, field, offset, size)                                                   \
  _Static_assert(offsetof(type, field) == (offset) && sizeof(((type*)0)->field) == (size), \
                 "place or size of " #type "." #field)
#define VALUE(constant, value) _Static_assert((constant) == (value), "value of " #constant)

_Static_assert(sizeof(void*) == 8 && sizeof(void (*)(void)) == 8 && sizeof(size_t) == 8, "64 bits");
SIZE(cachalot_address, 8);
SIZE(cachalot_stream, 8);

/* ---- status.h ---- */

SIZE(cachalot_status, 4);
VALUE(CACHALOT_OK, 0);
VALUE(CACHALOT_ERROR_INVALID_ARGUMENT, 1);
VALUE(CACHALOT_ERROR_INVALID_STATE, 2);
VALUE(CACHALOT_ERROR_NOT_SUPPORTED, 3);
VALUE(CACHALOT_ERROR_OUT_OF_MEMORY, 10);
VALUE(CACHALOT_ERROR_OUT_OF_HOST_MEMORY, 11);
VALUE(CACHALOT_ERROR_DRIVER, 20);
VALUE(CACHALOT_ERROR_DRIVER_UNAVAILABLE, 21);
VALUE(CACHALOT_ERROR_CALLBACK, 30);
VALUE(CACHALOT_ERROR_IO, 40);
VALUE(CACHALOT_ERROR_INTERNAL, 90);
VALUE(CACHALOT_STATUS_FORCE_INT32, 0x7fffffff);

VALUE(CACHALOT_MESSAGE_CAPACITY, 4096);
VALUE(CACHALOT_STREAM_ALL, UINT64_MAX);

SIZE(cachalot_error, 4200);
FIELD(cachalot_error, struct_size, 0, 8);
FIELD(cachalot_error, status, 8, 4);
FIELD(cachalot_error, driver_code, 12, 4);
FIELD(cachalot_error, requested, 16, 8);
FIELD(cachalot_error, segment_size, 24, 8);
FIELD(cachalot_error, device_free, 32, 8);
FIELD(cachalot_error, device_total, 40, 8);
FIELD(cachalot_error, limit, 48, 8);
FIELD(cachalot_error, allocated, 56, 8);
FIELD(cachalot_error, reserved, 64, 8);
FIELD(cachalot_error, private_pools_free, 72, 8);
FIELD(cachalot_error, largest_free_block, 80, 8);
FIELD(cachalot_error, stream, 88, 8);
FIELD(cachalot_error, device, 96, 4);
FIELD(cachalot_error, reserved_0, 100, 4);
FIELD(cachalot_error, message, 104, 4096);

SIZE(cachalot_status_description, 32);
FIELD(cachalot_status_description, struct_size, 0, 8);
FIELD(cachalot_status_description, status, 8, 4);
FIELD(cachalot_status_description, reserved_0, 12, 4);
FIELD(cachalot_status_description, name, 16, 8);
FIELD(cachalot_status_description, text, 24, 8);

/* ---- driver.h ---- */

VALUE(CACHALOT_DRIVER_SUCCESS, 0);
VALUE(CACHALOT_DRIVER_INVALID_VALUE, 1);
VALUE(CACHALOT_DRIVER_OUT_OF_MEMORY, 2);
VALUE(CACHALOT_DRIVER_NOT_READY, 600);
VALUE(CACHALOT_DRIVER_NOT_SUPPORTED, 801);
VALUE(CACHALOT_HANDLE_NONE, 0);
VALUE(CACHALOT_HANDLE_POSIX_FD, 1);
VALUE(CACHALOT_HANDLE_FABRIC, 8);

SIZE(cachalot_capture_info, 48);
FIELD(cachalot_capture_info, struct_size, 0, 8);
FIELD(cachalot_capture_info, capturing, 8, 4);
FIELD(cachalot_capture_info, reserved_0, 12, 4);
FIELD(cachalot_capture_info, capture_id, 16, 8);
FIELD(cachalot_capture_info, graph, 24, 8);
FIELD(cachalot_capture_info, nodes, 32, 8);
FIELD(cachalot_capture_info, node_count, 40, 8);

SIZE(cachalot_device_process, 16);
FIELD(cachalot_device_process, pid, 0, 8);
FIELD(cachalot_device_process, used, 8, 8);

SIZE(cachalot_shareable_handle, 64);
FIELD(cachalot_shareable_handle, bytes, 0, 64);

SIZE(cachalot_device_ops, 376);
FIELD(cachalot_device_ops, struct_size, 0, 8);
FIELD(cachalot_device_ops, memory_info, 8, 8);
FIELD(cachalot_device_ops, allocate, 16, 8);
FIELD(cachalot_device_ops, free, 24, 8);
FIELD(cachalot_device_ops, reserve, 32, 8);
FIELD(cachalot_device_ops, unreserve, 40, 8);
FIELD(cachalot_device_ops, granularity, 48, 8);
FIELD(cachalot_device_ops, create, 56, 8);
FIELD(cachalot_device_ops, export_handle, 64, 8);
FIELD(cachalot_device_ops, import_handle, 72, 8);
FIELD(cachalot_device_ops, release, 80, 8);
FIELD(cachalot_device_ops, map, 88, 8);
FIELD(cachalot_device_ops, unmap, 96, 8);
FIELD(cachalot_device_ops, set_access, 104, 8);
FIELD(cachalot_device_ops, fabric_state, 112, 8);
FIELD(cachalot_device_ops, event_create, 120, 8);
FIELD(cachalot_device_ops, event_destroy, 128, 8);
FIELD(cachalot_device_ops, event_record, 136, 8);
FIELD(cachalot_device_ops, event_query, 144, 8);
FIELD(cachalot_device_ops, event_synchronize, 152, 8);
FIELD(cachalot_device_ops, stream_synchronize, 160, 8);
FIELD(cachalot_device_ops, device_synchronize, 168, 8);
FIELD(cachalot_device_ops, capture_info, 176, 8);
FIELD(cachalot_device_ops, node_dependencies, 184, 8);
FIELD(cachalot_device_ops, exchange_capture_mode, 192, 8);
FIELD(cachalot_device_ops, enable_peer, 200, 8);
FIELD(cachalot_device_ops, processes, 208, 8);
FIELD(cachalot_device_ops, take_pending_error, 216, 8);
FIELD(cachalot_device_ops, error_text, 224, 8);
FIELD(cachalot_device_ops, pool_allocate, 232, 8);
FIELD(cachalot_device_ops, pool_free, 240, 8);
FIELD(cachalot_device_ops, pool_trim, 248, 8);
FIELD(cachalot_device_ops, pool_get_attribute, 256, 8);
FIELD(cachalot_device_ops, pool_set_attribute, 264, 8);
FIELD(cachalot_device_ops, pool_set_access, 272, 8);
FIELD(cachalot_device_ops, graph_get_attribute, 280, 8);
FIELD(cachalot_device_ops, graph_set_attribute, 288, 8);
FIELD(cachalot_device_ops, stream_create, 296, 8);
FIELD(cachalot_device_ops, stream_wait_event, 304, 8);
FIELD(cachalot_device_ops, event_record_all, 312, 8);
FIELD(cachalot_device_ops, host_allocate, 320, 8);
FIELD(cachalot_device_ops, host_free, 328, 8);
FIELD(cachalot_device_ops, copy, 336, 8);
FIELD(cachalot_device_ops, copy_peer, 344, 8);
FIELD(cachalot_device_ops, ipc_get, 352, 8);
FIELD(cachalot_device_ops, ipc_open, 360, 8);
FIELD(cachalot_device_ops, ipc_close, 368, 8);

/* ---- sim.h ---- */

VALUE(CACHALOT_SIM_CALL_ALLOCATE, 0x1u);
VALUE(CACHALOT_SIM_CALL_FREE, 0x2u);
VALUE(CACHALOT_SIM_CALL_RESERVE, 0x4u);
VALUE(CACHALOT_SIM_CALL_UNRESERVE, 0x8u);
VALUE(CACHALOT_SIM_CALL_CREATE, 0x10u);
VALUE(CACHALOT_SIM_CALL_RELEASE, 0x20u);
VALUE(CACHALOT_SIM_CALL_MAP, 0x40u);
VALUE(CACHALOT_SIM_CALL_UNMAP, 0x80u);
VALUE(CACHALOT_SIM_CALL_SET_ACCESS, 0x100u);
VALUE(CACHALOT_SIM_CALL_EXPORT, 0x200u);
VALUE(CACHALOT_SIM_CALL_IMPORT, 0x400u);
VALUE(CACHALOT_SIM_CALL_EVENT_CREATE, 0x800u);
VALUE(CACHALOT_SIM_CALL_EVENT_RECORD, 0x1000u);
VALUE(CACHALOT_SIM_CALL_EVENT_QUERY, 0x2000u);
VALUE(CACHALOT_SIM_CALL_EVENT_SYNCHRONIZE, 0x4000u);
VALUE(CACHALOT_SIM_CALL_SYNCHRONIZE, 0x8000u);
VALUE(CACHALOT_SIM_CALL_CAPTURE_INFO, 0x10000u);
VALUE(CACHALOT_SIM_CALL_ENABLE_PEER, 0x20000u);
VALUE(CACHALOT_SIM_CALL_MEMORY_INFO, 0x40000u);
VALUE(CACHALOT_SIM_CALL_FABRIC_STATE, 0x80000u);
VALUE(CACHALOT_SIM_CALL_POOL_ALLOCATE, 0x100000u);
VALUE(CACHALOT_SIM_CALL_STREAM_WAIT, 0x4000000u);
VALUE(CACHALOT_SIM_CALL_HOST_ALLOCATE, 0x8000000u);
VALUE(CACHALOT_SIM_CALL_HOST_FREE, 0x10000000u);
VALUE(CACHALOT_SIM_CALL_COPY, 0x20000000u);
VALUE(CACHALOT_SIM_LOG_CALLS, 0x1u);
VALUE(CACHALOT_SIM_LOG_HANDLES, 0x2u);
VALUE(CACHALOT_SIM_LOG_QUERIES, 0x4u);
VALUE(CACHALOT_SIM_LOG_CAPTURE_MODES, 0x8u);
VALUE(CACHALOT_SIM_LOG_WAITS, 0x10u);

SIZE(cachalot_sim_options, 24);
FIELD(cachalot_sim_options, struct_size, 0, 8);
FIELD(cachalot_sim_options, capacity, 8, 8);
FIELD(cachalot_sim_options, device_count, 16, 4);
FIELD(cachalot_sim_options, reserved_0, 20, 4);

SIZE(cachalot_sim_failure, 32);
FIELD(cachalot_sim_failure, struct_size, 0, 8);
FIELD(cachalot_sim_failure, calls, 8, 4);
FIELD(cachalot_sim_failure, code, 12, 4);
FIELD(cachalot_sim_failure, after, 16, 8);
FIELD(cachalot_sim_failure, count, 24, 8);

/* ---- allocator.h ---- */

VALUE(CACHALOT_RELEASE_DEFAULT, 0);
VALUE(CACHALOT_RELEASE_2_11, 211);
VALUE(CACHALOT_RELEASE_2_15, 215);
VALUE(CACHALOT_MEND_FALLBACK_ERRORS, 0x1u);
VALUE(CACHALOT_MEND_FALLBACK_EXPANDABLE, 0x2u);
VALUE(CACHALOT_MEND_HANDLE_TYPE, 0x4u);
VALUE(CACHALOT_MEND_SEARCH_AFTER_RELEASE, 0x8u);
VALUE(CACHALOT_MEND_HISTORY_ORDER, 0x10u);
VALUE(CACHALOT_MEND_REJECTION, 0x20u);
VALUE(CACHALOT_MEND_RESERVE, 0x40u);
VALUE(CACHALOT_MEND_SPLIT_LIMIT, 0x80u);
VALUE(CACHALOT_LOG_WARNING, 1);
VALUE(CACHALOT_LOG_DIFFERENCE, 2);
VALUE(CACHALOT_LOG_DAMAGE, 3);
VALUE(CACHALOT_DEBUG_NVTX, 0x1u);
VALUE(CACHALOT_DEBUG_POISON, 0x2u);
VALUE(CACHALOT_DEBUG_RED_ZONES, 0x4u);
VALUE(CACHALOT_POLICY_DEFAULT, 0);
VALUE(CACHALOT_POLICY_PYTORCH, 1);
VALUE(CACHALOT_POLICY_SERVING, 2);
VALUE(CACHALOT_BORROW_FIRST, 0);
VALUE(CACHALOT_BORROW_AT_LIMIT, 1);
VALUE(CACHALOT_BORROW_NEVER, 2);
VALUE(CACHALOT_TEXTS_DEFAULT, 0);
VALUE(CACHALOT_TEXTS_PYTORCH, 1);
VALUE(CACHALOT_TEXTS_OWN, 2);
VALUE(CACHALOT_STREAMS_UNANNOUNCED, 0);
VALUE(CACHALOT_STREAMS_ANNOUNCED, 1);
VALUE(CACHALOT_CONTEXT_CALLBACK, 0);
VALUE(CACHALOT_CONTEXT_STACK, 1);
VALUE(CACHALOT_CONTEXT_LABELS, 2);

SIZE(cachalot_pool_id, 16);
FIELD(cachalot_pool_id, first, 0, 8);
FIELD(cachalot_pool_id, second, 8, 8);

SIZE(cachalot_allocator_options, 144);
FIELD(cachalot_allocator_options, struct_size, 0, 8);
FIELD(cachalot_allocator_options, driver, 8, 8);
FIELD(cachalot_allocator_options, config, 16, 8);
FIELD(cachalot_allocator_options, release, 24, 4);
FIELD(cachalot_allocator_options, context_source, 28, 4);
FIELD(cachalot_allocator_options, mend, 32, 4);
FIELD(cachalot_allocator_options, no_caching, 36, 4);
FIELD(cachalot_allocator_options, shareable_pages, 40, 4);
FIELD(cachalot_allocator_options, check_every_call, 44, 4);
FIELD(cachalot_allocator_options, track_labels, 48, 4);
FIELD(cachalot_allocator_options, reserved_0, 52, 4);
FIELD(cachalot_allocator_options, log, 56, 8);
FIELD(cachalot_allocator_options, log_user_data, 64, 8);
FIELD(cachalot_allocator_options, context_capture, 72, 8);
FIELD(cachalot_allocator_options, context_text, 80, 8);
FIELD(cachalot_allocator_options, context_user_data, 88, 8);
FIELD(cachalot_allocator_options, debug, 96, 4);
FIELD(cachalot_allocator_options, reserved_1, 100, 4);
FIELD(cachalot_allocator_options, policy, 104, 4);
FIELD(cachalot_allocator_options, thrift, 108, 4);
FIELD(cachalot_allocator_options, borrow, 112, 4);
FIELD(cachalot_allocator_options, streams, 116, 4);
FIELD(cachalot_allocator_options, page_bytes, 120, 8);
FIELD(cachalot_allocator_options, pinned_config, 128, 8);
FIELD(cachalot_allocator_options, texts, 136, 4);
FIELD(cachalot_allocator_options, reserved_2, 140, 4);

SIZE(cachalot_request, 48);
FIELD(cachalot_request, struct_size, 0, 8);
FIELD(cachalot_request, size, 8, 8);
FIELD(cachalot_request, stream, 16, 8);
FIELD(cachalot_request, current_stream, 24, 8);
FIELD(cachalot_request, device, 32, 4);
FIELD(cachalot_request, has_current_stream, 36, 4);
FIELD(cachalot_request, at, 40, 8);

SIZE(cachalot_block, 72);
FIELD(cachalot_block, struct_size, 0, 8);
FIELD(cachalot_block, address, 8, 8);
FIELD(cachalot_block, size, 16, 8);
FIELD(cachalot_block, requested, 24, 8);
FIELD(cachalot_block, stream, 32, 8);
FIELD(cachalot_block, pool, 40, 16);
FIELD(cachalot_block, device, 56, 4);
FIELD(cachalot_block, uncached, 60, 4);
FIELD(cachalot_block, from_source, 64, 4);
FIELD(cachalot_block, reserved_0, 68, 4);

SIZE(cachalot_device_totals, 48);
FIELD(cachalot_device_totals, struct_size, 0, 8);
FIELD(cachalot_device_totals, total, 8, 8);
FIELD(cachalot_device_totals, used, 16, 8);
FIELD(cachalot_device_totals, used_by_process, 24, 8);
FIELD(cachalot_device_totals, reserved, 32, 8);
FIELD(cachalot_device_totals, outside, 40, 8);

SIZE(cachalot_settings, 248);
FIELD(cachalot_settings, struct_size, 0, 8);
FIELD(cachalot_settings, max_split_size, 8, 8);
FIELD(cachalot_settings, max_non_split_rounding_size, 16, 8);
FIELD(cachalot_settings, large_segment_size, 24, 8);
FIELD(cachalot_settings, garbage_collection_threshold, 32, 8);
FIELD(cachalot_settings, per_process_memory_fraction, 40, 8);
FIELD(cachalot_settings, roundup_power2_divisions, 48, 128);
FIELD(cachalot_settings, roundup_bypass_threshold, 176, 8);
FIELD(cachalot_settings, expandable_segments, 184, 4);
FIELD(cachalot_settings, release_lock_on_cudamalloc, 188, 4);
FIELD(cachalot_settings, graph_capture_record_stream_reuse, 192, 4);
FIELD(cachalot_settings, throw_on_cudamalloc_oom, 196, 4);
FIELD(cachalot_settings, pinned_use_background_threads, 200, 4);
FIELD(cachalot_settings, pinned_use_cuda_host_register, 204, 4);
FIELD(cachalot_settings, pinned_free_catch_all, 208, 4);
FIELD(cachalot_settings, reserved_0, 212, 4);
FIELD(cachalot_settings, pinned_num_register_threads, 216, 8);
FIELD(cachalot_settings, pinned_reserve_segment_size_mb, 224, 8);
FIELD(cachalot_settings, pinned_max_round_threshold, 232, 8);
FIELD(cachalot_settings, pinned_max_cached_size, 240, 8);

/* ---- stats.h ---- */

SIZE(cachalot_stat, 32);
FIELD(cachalot_stat, current, 0, 8);
FIELD(cachalot_stat, peak, 8, 8);
FIELD(cachalot_stat, allocated, 16, 8);
FIELD(cachalot_stat, freed, 24, 8);

SIZE(cachalot_stat_array, 96);
FIELD(cachalot_stat_array, all, 0, 32);
FIELD(cachalot_stat_array, small_pool, 32, 32);
FIELD(cachalot_stat_array, large_pool, 64, 32);

SIZE(cachalot_stats, 992);
FIELD(cachalot_stats, struct_size, 0, 8);
FIELD(cachalot_stats, allocation, 8, 96);
FIELD(cachalot_stats, segment, 104, 96);
FIELD(cachalot_stats, active, 200, 96);
FIELD(cachalot_stats, inactive_split, 296, 96);
FIELD(cachalot_stats, allocated_bytes, 392, 96);
FIELD(cachalot_stats, reserved_bytes, 488, 96);
FIELD(cachalot_stats, active_bytes, 584, 96);
FIELD(cachalot_stats, inactive_split_bytes, 680, 96);
FIELD(cachalot_stats, requested_bytes, 776, 96);
FIELD(cachalot_stats, oversize_allocations, 872, 32);
FIELD(cachalot_stats, oversize_segments, 904, 32);
FIELD(cachalot_stats, num_alloc_retries, 936, 8);
FIELD(cachalot_stats, num_ooms, 944, 8);
FIELD(cachalot_stats, num_sync_all_streams, 952, 8);
FIELD(cachalot_stats, num_device_alloc, 960, 8);
FIELD(cachalot_stats, num_device_free, 968, 8);
FIELD(cachalot_stats, max_split_size, 976, 8);
FIELD(cachalot_stats, num_oom_rejections, 984, 8);

SIZE(cachalot_pool_stats, 120);
FIELD(cachalot_pool_stats, struct_size, 0, 8);
FIELD(cachalot_pool_stats, pool, 8, 16);
FIELD(cachalot_pool_stats, reserved_bytes, 24, 96);

SIZE(cachalot_label_stats, 328);
FIELD(cachalot_label_stats, struct_size, 0, 8);
FIELD(cachalot_label_stats, label, 8, 256);
FIELD(cachalot_label_stats, allocation, 264, 32);
FIELD(cachalot_label_stats, allocated_bytes, 296, 32);

/* ---- history.h ---- */

SIZE(cachalot_action, 4);
VALUE(CACHALOT_ACTION_ALLOC, 0);
VALUE(CACHALOT_ACTION_FREE_REQUESTED, 1);
VALUE(CACHALOT_ACTION_FREE_COMPLETED, 2);
VALUE(CACHALOT_ACTION_SEGMENT_ALLOC, 3);
VALUE(CACHALOT_ACTION_SEGMENT_FREE, 4);
VALUE(CACHALOT_ACTION_SEGMENT_MAP, 5);
VALUE(CACHALOT_ACTION_SEGMENT_UNMAP, 6);
VALUE(CACHALOT_ACTION_SNAPSHOT, 7);
VALUE(CACHALOT_ACTION_OOM, 8);
VALUE(CACHALOT_ACTION_ANNOTATE, 9);
VALUE(CACHALOT_ACTION_LIVE_AT_BEGIN, 10);
VALUE(CACHALOT_ACTION_OTHER_ALLOC, 11);
VALUE(CACHALOT_ACTION_OTHER_FREE, 12);
VALUE(CACHALOT_ACTION_CALL_END, 13);
VALUE(CACHALOT_ACTION_CONTEXT_END, 14);
VALUE(CACHALOT_ACTION_STREAM_CREATE, 15);
VALUE(CACHALOT_ACTION_STREAM_DESTROY, 16);
VALUE(CACHALOT_ACTION_CAPTURE_BEGIN, 17);
VALUE(CACHALOT_ACTION_CAPTURE_END, 18);
VALUE(CACHALOT_ACTION_STREAM_WAIT, 19);
VALUE(CACHALOT_ACTION_CONTEXT_WAIT, 20);
VALUE(CACHALOT_ACTION_EXPORT, 21);
VALUE(CACHALOT_ACTION_RECORDING_END, 22);
VALUE(CACHALOT_ACTION_FORCE_INT32, 0x7fffffff);

VALUE(CACHALOT_CONTEXT_LEVEL_NEVER, 0);
VALUE(CACHALOT_CONTEXT_LEVEL_STATE, 1);
VALUE(CACHALOT_CONTEXT_LEVEL_ALLOC, 2);
VALUE(CACHALOT_CONTEXT_LEVEL_ALL, 3);

SIZE(cachalot_trace_entry, 88);
FIELD(cachalot_trace_entry, struct_size, 0, 8);
FIELD(cachalot_trace_entry, action, 8, 4);
FIELD(cachalot_trace_entry, device, 12, 4);
FIELD(cachalot_trace_entry, address, 16, 8);
FIELD(cachalot_trace_entry, size, 24, 8);
FIELD(cachalot_trace_entry, stream, 32, 8);
FIELD(cachalot_trace_entry, pool, 40, 16);
FIELD(cachalot_trace_entry, context, 56, 8);
FIELD(cachalot_trace_entry, time_us, 64, 8);
FIELD(cachalot_trace_entry, metadata, 72, 8);
FIELD(cachalot_trace_entry, internal_metadata, 80, 8);

SIZE(cachalot_history_options, 40);
FIELD(cachalot_history_options, struct_size, 0, 8);
FIELD(cachalot_history_options, enabled, 8, 4);
FIELD(cachalot_history_options, context, 12, 4);
FIELD(cachalot_history_options, max_entries, 16, 8);
FIELD(cachalot_history_options, clear, 24, 4);
FIELD(cachalot_history_options, reserved_0, 28, 4);
FIELD(cachalot_history_options, skip_actions, 32, 8);

SIZE(cachalot_out_of_memory, 96);
FIELD(cachalot_out_of_memory, struct_size, 0, 8);
FIELD(cachalot_out_of_memory, device, 8, 4);
FIELD(cachalot_out_of_memory, reserved_0, 12, 4);
FIELD(cachalot_out_of_memory, stream, 16, 8);
FIELD(cachalot_out_of_memory, requested, 24, 8);
FIELD(cachalot_out_of_memory, segment_size, 32, 8);
FIELD(cachalot_out_of_memory, device_free, 40, 8);
FIELD(cachalot_out_of_memory, device_total, 48, 8);
FIELD(cachalot_out_of_memory, limit, 56, 8);
FIELD(cachalot_out_of_memory, allocated, 64, 8);
FIELD(cachalot_out_of_memory, reserved, 72, 8);
FIELD(cachalot_out_of_memory, private_pools_free, 80, 8);
FIELD(cachalot_out_of_memory, largest_free_block, 88, 8);

SIZE(cachalot_rejection, 40);
FIELD(cachalot_rejection, struct_size, 0, 8);
FIELD(cachalot_rejection, device, 8, 4);
FIELD(cachalot_rejection, reserved_0, 12, 4);
FIELD(cachalot_rejection, segment_size, 16, 8);
FIELD(cachalot_rejection, reserved, 24, 8);
FIELD(cachalot_rejection, device_total, 32, 8);

/* ---- recorder.h ---- */

VALUE(CACHALOT_RECORD_LABELS, 0);
VALUE(CACHALOT_RECORD_HISTORY_CONTEXTS, 1);
VALUE(CACHALOT_RECORD_NO_CONTEXTS, 2);

SIZE(cachalot_recorder_options, 64);
FIELD(cachalot_recorder_options, struct_size, 0, 8);
FIELD(cachalot_recorder_options, path, 8, 8);
FIELD(cachalot_recorder_options, max_bytes, 16, 8);
FIELD(cachalot_recorder_options, contexts, 24, 4);
FIELD(cachalot_recorder_options, reserved_0, 28, 4);
FIELD(cachalot_recorder_options, workload, 32, 8);
FIELD(cachalot_recorder_options, write, 40, 8);
FIELD(cachalot_recorder_options, write_user_data, 48, 8);
FIELD(cachalot_recorder_options, write_destroy, 56, 8);

SIZE(cachalot_recorder_stats, 32);
FIELD(cachalot_recorder_stats, struct_size, 0, 8);
FIELD(cachalot_recorder_stats, events, 8, 8);
FIELD(cachalot_recorder_stats, lost, 16, 8);
FIELD(cachalot_recorder_stats, bytes, 24, 8);

SIZE(cachalot_oom_dump_options, 24);
FIELD(cachalot_oom_dump_options, struct_size, 0, 8);
FIELD(cachalot_oom_dump_options, folder, 8, 8);
FIELD(cachalot_oom_dump_options, events, 16, 8);

/* ---- snapshot.h ---- */

VALUE(CACHALOT_BLOCK_INACTIVE, 0);
VALUE(CACHALOT_BLOCK_ALLOCATED, 1);
VALUE(CACHALOT_BLOCK_PENDING_FREE, 2);

SIZE(cachalot_snapshot_options, 32);
FIELD(cachalot_snapshot_options, struct_size, 0, 8);
FIELD(cachalot_snapshot_options, pool, 8, 16);
FIELD(cachalot_snapshot_options, without_history, 24, 4);
FIELD(cachalot_snapshot_options, reserved_0, 28, 4);

SIZE(cachalot_segment_row, 120);
FIELD(cachalot_segment_row, struct_size, 0, 8);
FIELD(cachalot_segment_row, device, 8, 4);
FIELD(cachalot_segment_row, is_large, 12, 4);
FIELD(cachalot_segment_row, address, 16, 8);
FIELD(cachalot_segment_row, total_size, 24, 8);
FIELD(cachalot_segment_row, allocated_size, 32, 8);
FIELD(cachalot_segment_row, active_size, 40, 8);
FIELD(cachalot_segment_row, requested_size, 48, 8);
FIELD(cachalot_segment_row, stream, 56, 8);
FIELD(cachalot_segment_row, pool, 64, 16);
FIELD(cachalot_segment_row, is_expandable, 80, 4);
FIELD(cachalot_segment_row, reserved_0, 84, 4);
FIELD(cachalot_segment_row, number, 88, 8);
FIELD(cachalot_segment_row, context, 96, 8);
FIELD(cachalot_segment_row, first_block, 104, 8);
FIELD(cachalot_segment_row, block_count, 112, 8);

SIZE(cachalot_block_row, 48);
FIELD(cachalot_block_row, struct_size, 0, 8);
FIELD(cachalot_block_row, address, 8, 8);
FIELD(cachalot_block_row, size, 16, 8);
FIELD(cachalot_block_row, requested_size, 24, 8);
FIELD(cachalot_block_row, state, 32, 4);
FIELD(cachalot_block_row, reserved_0, 36, 4);
FIELD(cachalot_block_row, context, 40, 8);

/* ---- sleep.h ---- */

SIZE(cachalot_sleep_stats, 72);
FIELD(cachalot_sleep_stats, struct_size, 0, 8);
FIELD(cachalot_sleep_stats, state, 8, 4);
FIELD(cachalot_sleep_stats, reserved_0, 12, 4);
FIELD(cachalot_sleep_stats, pools, 16, 8);
FIELD(cachalot_sleep_stats, blocks, 24, 8);
FIELD(cachalot_sleep_stats, allocated_bytes, 32, 8);
FIELD(cachalot_sleep_stats, asleep_bytes, 40, 8);
FIELD(cachalot_sleep_stats, kept_bytes, 48, 8);
FIELD(cachalot_sleep_stats, num_sleeps, 56, 8);
FIELD(cachalot_sleep_stats, num_wakes, 64, 8);
VALUE(CACHALOT_SLEEP_DISCARD, 0);
VALUE(CACHALOT_SLEEP_KEEP, 1);
VALUE(CACHALOT_SLEEP_KEEP_ALL, 2);
VALUE(CACHALOT_SLEEP_NEVER, -1);
VALUE(CACHALOT_POOL_AWAKE, 0);
VALUE(CACHALOT_POOL_FALLING_ASLEEP, 1);
VALUE(CACHALOT_POOL_ASLEEP, 2);
VALUE(CACHALOT_POOL_WAKING, 3);

/* ---- checkpoint.h ---- */

SIZE(cachalot_checkpoint_row, 48);
FIELD(cachalot_checkpoint_row, struct_size, 0, 8);
FIELD(cachalot_checkpoint_row, address, 8, 8);
FIELD(cachalot_checkpoint_row, size, 16, 8);
FIELD(cachalot_checkpoint_row, stream, 24, 8);
FIELD(cachalot_checkpoint_row, segment, 32, 8);
FIELD(cachalot_checkpoint_row, is_used, 40, 4);
FIELD(cachalot_checkpoint_row, is_mapped, 44, 4);

/* ---- policy.h ---- */

SIZE(cachalot_policy, 32);
FIELD(cachalot_policy, struct_size, 0, 8);
FIELD(cachalot_policy, policy, 8, 4);
FIELD(cachalot_policy, thrift, 12, 4);
FIELD(cachalot_policy, borrow, 16, 4);
FIELD(cachalot_policy, streams, 20, 4);
FIELD(cachalot_policy, page_bytes, 24, 8);

SIZE(cachalot_policy_stats, 64);
FIELD(cachalot_policy_stats, struct_size, 0, 8);
FIELD(cachalot_policy_stats, pages_created, 8, 8);
FIELD(cachalot_policy_stats, pages_moved, 16, 8);
FIELD(cachalot_policy_stats, pages_released, 24, 8);
FIELD(cachalot_policy_stats, blocks_borrowed, 32, 8);
FIELD(cachalot_policy_stats, stream_waits, 40, 8);
FIELD(cachalot_policy_stats, host_waits, 48, 8);
FIELD(cachalot_policy_stats, pinned_bytes, 56, 8);

/* ---- pool.h ---- */

VALUE(CACHALOT_POOL_USE_ON_OOM, 0x1u);
VALUE(CACHALOT_POOL_NO_SPLIT, 0x2u);
VALUE(CACHALOT_POOL_PINNED, 0x4u);
VALUE(CACHALOT_POOL_WHOLE_BLOCKS, 0x8u);
VALUE(CACHALOT_ROUTE_THIS_THREAD, 0);
VALUE(CACHALOT_ROUTE_ALL, 1);
VALUE(CACHALOT_ROUTE_NONE, 2);
VALUE(CACHALOT_ROUTE_STREAM, 3);
VALUE(CACHALOT_ROUTE_CAPTURE, 4);
VALUE(CACHALOT_ROUTE_PREDICATE, 5);

SIZE(cachalot_pool_source, 40);
FIELD(cachalot_pool_source, struct_size, 0, 8);
FIELD(cachalot_pool_source, allocate, 8, 8);
FIELD(cachalot_pool_source, free, 16, 8);
FIELD(cachalot_pool_source, user_data, 24, 8);
FIELD(cachalot_pool_source, destroy, 32, 8);

SIZE(cachalot_pool_options, 24);
FIELD(cachalot_pool_options, struct_size, 0, 8);
FIELD(cachalot_pool_options, flags, 8, 4);
FIELD(cachalot_pool_options, reserved_0, 12, 4);
FIELD(cachalot_pool_options, source, 16, 8);

SIZE(cachalot_pool_route, 56);
FIELD(cachalot_pool_route, struct_size, 0, 8);
FIELD(cachalot_pool_route, kind, 8, 4);
FIELD(cachalot_pool_route, reserved_0, 12, 4);
FIELD(cachalot_pool_route, stream, 16, 8);
FIELD(cachalot_pool_route, capture_id, 24, 8);
FIELD(cachalot_pool_route, predicate, 32, 8);
FIELD(cachalot_pool_route, user_data, 40, 8);
FIELD(cachalot_pool_route, destroy, 48, 8);

SIZE(cachalot_expandable_segment, 24);
FIELD(cachalot_expandable_segment, stream, 0, 8);
FIELD(cachalot_expandable_segment, mapped_size, 8, 8);
FIELD(cachalot_expandable_segment, is_small, 16, 4);
FIELD(cachalot_expandable_segment, reserved_0, 20, 4);

SIZE(cachalot_reserve, 32);
FIELD(cachalot_reserve, struct_size, 0, 8);
FIELD(cachalot_reserve, has_reserve, 8, 4);
FIELD(cachalot_reserve, is_class_known, 12, 4);
FIELD(cachalot_reserve, reserve_bytes, 16, 8);
FIELD(cachalot_reserve, segment_bytes, 24, 8);

/* ---- pinned.h ---- */

SIZE(cachalot_call_times, 32);
FIELD(cachalot_call_times, count, 0, 8);
FIELD(cachalot_call_times, total, 8, 8);
FIELD(cachalot_call_times, min, 16, 8);
FIELD(cachalot_call_times, max, 24, 8);

SIZE(cachalot_pinned_stats, 200);
FIELD(cachalot_pinned_stats, struct_size, 0, 8);
FIELD(cachalot_pinned_stats, allocations, 8, 32);
FIELD(cachalot_pinned_stats, allocated_bytes, 40, 32);
FIELD(cachalot_pinned_stats, active_requests, 72, 32);
FIELD(cachalot_pinned_stats, active_bytes, 104, 32);
FIELD(cachalot_pinned_stats, allocate_times, 136, 32);
FIELD(cachalot_pinned_stats, free_times, 168, 32);

/* ---- tenant.h ---- */

VALUE(CACHALOT_TENANT_NAME_CAPACITY, 64);
VALUE(CACHALOT_LABEL_CAPACITY, 256);
VALUE(CACHALOT_MAX_LABELS, 1000);
VALUE(CACHALOT_ALL_DEVICES, -1);
VALUE(CACHALOT_PRESSURE_LIMIT, 1);
VALUE(CACHALOT_PRESSURE_GUARANTEE, 2);
VALUE(CACHALOT_PRESSURE_DEVICE, 3);

SIZE(cachalot_pressure, 64);
FIELD(cachalot_pressure, struct_size, 0, 8);
FIELD(cachalot_pressure, reason, 8, 4);
FIELD(cachalot_pressure, device, 12, 4);
FIELD(cachalot_pressure, missing_bytes, 16, 8);
FIELD(cachalot_pressure, allocated_bytes, 24, 8);
FIELD(cachalot_pressure, guaranteed_bytes, 32, 8);
FIELD(cachalot_pressure, requester, 40, 8);
FIELD(cachalot_pressure, requester_name, 48, 8);
FIELD(cachalot_pressure, requester_priority, 56, 4);
FIELD(cachalot_pressure, is_guaranteed, 60, 4);

SIZE(cachalot_tenant_options, 64);
FIELD(cachalot_tenant_options, struct_size, 0, 8);
FIELD(cachalot_tenant_options, name, 8, 8);
FIELD(cachalot_tenant_options, guaranteed_bytes, 16, 8);
FIELD(cachalot_tenant_options, limit_bytes, 24, 8);
FIELD(cachalot_tenant_options, priority, 32, 4);
FIELD(cachalot_tenant_options, reserved_0, 36, 4);
FIELD(cachalot_tenant_options, pressure, 40, 8);
FIELD(cachalot_tenant_options, pressure_user_data, 48, 8);
FIELD(cachalot_tenant_options, pressure_destroy, 56, 8);

SIZE(cachalot_tenant_stats, 232);
FIELD(cachalot_tenant_stats, struct_size, 0, 8);
FIELD(cachalot_tenant_stats, id, 8, 8);
FIELD(cachalot_tenant_stats, device, 16, 4);
FIELD(cachalot_tenant_stats, priority, 20, 4);
FIELD(cachalot_tenant_stats, guaranteed_bytes, 24, 8);
FIELD(cachalot_tenant_stats, limit_bytes, 32, 8);
FIELD(cachalot_tenant_stats, allocation, 40, 32);
FIELD(cachalot_tenant_stats, allocated_bytes, 72, 32);
FIELD(cachalot_tenant_stats, requested_bytes, 104, 32);
FIELD(cachalot_tenant_stats, num_ooms, 136, 8);
FIELD(cachalot_tenant_stats, num_pressure_calls, 144, 8);
FIELD(cachalot_tenant_stats, pressure_freed_bytes, 152, 8);
FIELD(cachalot_tenant_stats, name, 160, 64);
FIELD(cachalot_tenant_stats, asleep_bytes, 224, 8);

/* ---- report.h ---- */

VALUE(CACHALOT_OUTCOME_NO_REQUEST, 0);
VALUE(CACHALOT_OUTCOME_FROM_CACHE, 1);
VALUE(CACHALOT_OUTCOME_FROM_DEVICE, 2);
VALUE(CACHALOT_OUTCOME_AFTER_RELEASE, 3);
VALUE(CACHALOT_OUTCOME_FAILS, 4);

VALUE(CACHALOT_REASON_USABLE, 0);
VALUE(CACHALOT_REASON_PENDING_EVENTS, 1);
VALUE(CACHALOT_REASON_PENDING_CAPTURE, 2);
VALUE(CACHALOT_REASON_OTHER_POOL, 3);
VALUE(CACHALOT_REASON_OTHER_CLASS, 4);
VALUE(CACHALOT_REASON_OTHER_STREAM, 5);
VALUE(CACHALOT_REASON_EXPANDABLE, 6);
VALUE(CACHALOT_REASON_TOO_SMALL, 7);
VALUE(CACHALOT_REASON_NOT_SPLIT, 8);

SIZE(cachalot_report_options, 32);
FIELD(cachalot_report_options, struct_size, 0, 8);
FIELD(cachalot_report_options, device, 8, 4);
FIELD(cachalot_report_options, reserved_0, 12, 4);
FIELD(cachalot_report_options, size, 16, 8);
FIELD(cachalot_report_options, stream, 24, 8);

SIZE(cachalot_report_numbers, 152);
FIELD(cachalot_report_numbers, struct_size, 0, 8);
FIELD(cachalot_report_numbers, device, 8, 4);
FIELD(cachalot_report_numbers, outcome, 12, 4);
FIELD(cachalot_report_numbers, requested, 16, 8);
FIELD(cachalot_report_numbers, size, 24, 8);
FIELD(cachalot_report_numbers, segment_size, 32, 8);
FIELD(cachalot_report_numbers, stream, 40, 8);
FIELD(cachalot_report_numbers, pool, 48, 16);
FIELD(cachalot_report_numbers, is_small, 64, 4);
FIELD(cachalot_report_numbers, reserved_0, 68, 4);
FIELD(cachalot_report_numbers, device_total, 72, 8);
FIELD(cachalot_report_numbers, device_free, 80, 8);
FIELD(cachalot_report_numbers, limit, 88, 8);
FIELD(cachalot_report_numbers, reserved, 96, 8);
FIELD(cachalot_report_numbers, allocated, 104, 8);
FIELD(cachalot_report_numbers, pending, 112, 8);
FIELD(cachalot_report_numbers, cached, 120, 8);
FIELD(cachalot_report_numbers, largest_free_block, 128, 8);
FIELD(cachalot_report_numbers, releasable, 136, 8);
FIELD(cachalot_report_numbers, asleep, 144, 8);

SIZE(cachalot_report_holder, 72);
FIELD(cachalot_report_holder, struct_size, 0, 8);
FIELD(cachalot_report_holder, label, 8, 8);
FIELD(cachalot_report_holder, stream, 16, 8);
FIELD(cachalot_report_holder, pool, 24, 16);
FIELD(cachalot_report_holder, blocks, 40, 8);
FIELD(cachalot_report_holder, bytes, 48, 8);
FIELD(cachalot_report_holder, requested, 56, 8);
FIELD(cachalot_report_holder, tenant, 64, 4);
FIELD(cachalot_report_holder, reserved_0, 68, 4);

SIZE(cachalot_report_reason, 48);
FIELD(cachalot_report_reason, struct_size, 0, 8);
FIELD(cachalot_report_reason, reason, 8, 4);
FIELD(cachalot_report_reason, reserved_0, 12, 4);
FIELD(cachalot_report_reason, blocks, 16, 8);
FIELD(cachalot_report_reason, bytes, 24, 8);
FIELD(cachalot_report_reason, largest, 32, 8);
FIELD(cachalot_report_reason, releasable, 40, 8);

/* ---- trace.h ---- */

SIZE(cachalot_trace_info, 112);
FIELD(cachalot_trace_info, struct_size, 0, 8);
FIELD(cachalot_trace_info, workload, 8, 8);
FIELD(cachalot_trace_info, torch, 16, 8);
FIELD(cachalot_trace_info, config, 24, 8);
FIELD(cachalot_trace_info, device_total, 32, 8);
FIELD(cachalot_trace_info, event_count, 40, 8);
FIELD(cachalot_trace_info, stat_count, 48, 8);
FIELD(cachalot_trace_info, release, 56, 4);
FIELD(cachalot_trace_info, device_count, 60, 4);
FIELD(cachalot_trace_info, recorder, 64, 8);
FIELD(cachalot_trace_info, format, 72, 4);
FIELD(cachalot_trace_info, driver_version, 76, 4);
FIELD(cachalot_trace_info, command, 80, 8);
FIELD(cachalot_trace_info, process_id, 88, 8);
FIELD(cachalot_trace_info, parent_process_id, 96, 8);
FIELD(cachalot_trace_info, start_us, 104, 8);

SIZE(cachalot_trace_event, 120);
FIELD(cachalot_trace_event, struct_size, 0, 8);
FIELD(cachalot_trace_event, action, 8, 4);
FIELD(cachalot_trace_event, device, 12, 4);
FIELD(cachalot_trace_event, address, 16, 8);
FIELD(cachalot_trace_event, size, 24, 8);
FIELD(cachalot_trace_event, stream, 32, 8);
FIELD(cachalot_trace_event, pool, 40, 16);
FIELD(cachalot_trace_event, time_us, 56, 8);
FIELD(cachalot_trace_event, context, 64, 8);
FIELD(cachalot_trace_event, cost_ns, 72, 8);
FIELD(cachalot_trace_event, wait_ns, 80, 8);
FIELD(cachalot_trace_event, thread, 88, 8);
FIELD(cachalot_trace_event, freed_on, 96, 8);
FIELD(cachalot_trace_event, driver_context, 104, 8);
FIELD(cachalot_trace_event, entry, 112, 4);
SIZE(cachalot_trace_frame, 32);
FIELD(cachalot_trace_frame, struct_size, 0, 8);
FIELD(cachalot_trace_frame, address, 8, 8);
FIELD(cachalot_trace_frame, file_offset, 16, 8);
FIELD(cachalot_trace_frame, path, 24, 8);

SIZE(cachalot_replay_options, 112);
FIELD(cachalot_replay_options, struct_size, 0, 8);
FIELD(cachalot_replay_options, config, 8, 8);
FIELD(cachalot_replay_options, release, 16, 4);
FIELD(cachalot_replay_options, expect, 20, 4);
FIELD(cachalot_replay_options, capacity, 24, 8);
FIELD(cachalot_replay_options, fraction, 32, 8);
FIELD(cachalot_replay_options, progress, 40, 8);
FIELD(cachalot_replay_options, progress_user_data, 48, 8);
FIELD(cachalot_replay_options, policy, 56, 4);
FIELD(cachalot_replay_options, thrift, 60, 4);
FIELD(cachalot_replay_options, borrow, 64, 4);
FIELD(cachalot_replay_options, streams, 68, 4);
FIELD(cachalot_replay_options, page_bytes, 72, 8);
FIELD(cachalot_replay_options, stop_at_out_of_memory, 80, 4);
FIELD(cachalot_replay_options, history, 84, 4);
FIELD(cachalot_replay_options, observer, 88, 8);
FIELD(cachalot_replay_options, observer_user_data, 96, 8);
FIELD(cachalot_replay_options, event_count, 104, 8);

SIZE(cachalot_replay_result, 128);
FIELD(cachalot_replay_result, struct_size, 0, 8);
FIELD(cachalot_replay_result, events, 8, 8);
FIELD(cachalot_replay_result, allocations, 16, 8);
FIELD(cachalot_replay_result, out_of_memory, 24, 8);
FIELD(cachalot_replay_result, driver_allocations, 32, 8);
FIELD(cachalot_replay_result, driver_frees, 40, 8);
FIELD(cachalot_replay_result, segments, 48, 8);
FIELD(cachalot_replay_result, segments_peak, 56, 8);
FIELD(cachalot_replay_result, peak_requested, 64, 8);
FIELD(cachalot_replay_result, peak_allocated, 72, 8);
FIELD(cachalot_replay_result, peak_reserved, 80, 8);
FIELD(cachalot_replay_result, differing_events, 88, 8);
FIELD(cachalot_replay_result, first_difference, 96, 8);
FIELD(cachalot_replay_result, expected, 104, 8);
FIELD(cachalot_replay_result, actual, 112, 8);
FIELD(cachalot_replay_result, peak_device_bytes, 120, 8);

SIZE(cachalot_replay_call, 40);
FIELD(cachalot_replay_call, struct_size, 0, 8);
FIELD(cachalot_replay_call, function, 8, 8);
FIELD(cachalot_replay_call, size, 16, 8);
FIELD(cachalot_replay_call, count, 24, 8);
FIELD(cachalot_replay_call, gap_us, 32, 8);
