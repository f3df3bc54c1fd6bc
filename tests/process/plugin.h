/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a plugin with a static copy of the library inside offers: the copy's own functions. */
#pragma once

#include "cachalot/cachalot.h"

struct LibraryCopy {
  decltype(&cachalot_driver_create_host) driver_create_host;
  decltype(&cachalot_driver_destroy) driver_destroy;
  decltype(&cachalot_driver_name) driver_name;
  decltype(&cachalot_driver_device_count) driver_device_count;
  decltype(&cachalot_sim_queue_work) sim_queue_work;
  decltype(&cachalot_allocator_create) allocator_create;
  decltype(&cachalot_allocator_destroy) allocator_destroy;
  decltype(&cachalot_allocator_destroy_all) allocator_destroy_all;
  decltype(&cachalot_allocator_backend) allocator_backend;
  decltype(&cachalot_allocator_driver) allocator_driver;
  decltype(&cachalot_allocate) allocate;
  decltype(&cachalot_free) free;
  decltype(&cachalot_get_block) get_block;
  decltype(&cachalot_record_stream) record_stream;
  decltype(&cachalot_memory_allocated) memory_allocated;
  decltype(&cachalot_check) check;
  decltype(&cachalot_label_push) label_push;
  decltype(&cachalot_label_pop) label_pop;
  decltype(&cachalot_snapshot_take) snapshot_take;
  decltype(&cachalot_snapshot_segment) snapshot_segment;
  decltype(&cachalot_snapshot_segment_count) snapshot_segment_count;
  decltype(&cachalot_snapshot_destroy) snapshot_destroy;
  decltype(&cachalot_trace_write) trace_write;
  decltype(&cachalot_trace_read) trace_read;
  decltype(&cachalot_trace_get_info) trace_get_info;
  decltype(&cachalot_trace_destroy) trace_destroy;
  decltype(&cachalot_replay_run) replay_run;
  decltype(&cachalot_replay_get_result) replay_get_result;
  decltype(&cachalot_replay_allocator) replay_allocator;
  decltype(&cachalot_replay_destroy) replay_destroy;
  decltype(&cachalot_report_create) report_create;
  decltype(&cachalot_report_text) report_text;
  decltype(&cachalot_report_advice) report_advice;
  decltype(&cachalot_report_destroy) report_destroy;
  decltype(&cachalot_tenant_create) tenant_create;
  decltype(&cachalot_tenant_begin) tenant_begin;
  decltype(&cachalot_tenant_destroy) tenant_destroy;
};

/* The copy that the including file is linked with. */
inline LibraryCopy own_copy() {
  return {cachalot_driver_create_host,
          cachalot_driver_destroy,
          cachalot_driver_name,
          cachalot_driver_device_count,
          cachalot_sim_queue_work,
          cachalot_allocator_create,
          cachalot_allocator_destroy,
          cachalot_allocator_destroy_all,
          cachalot_allocator_backend,
          cachalot_allocator_driver,
          cachalot_allocate,
          cachalot_free,
          cachalot_get_block,
          cachalot_record_stream,
          cachalot_memory_allocated,
          cachalot_check,
          cachalot_label_push,
          cachalot_label_pop,
          cachalot_snapshot_take,
          cachalot_snapshot_segment,
          cachalot_snapshot_segment_count,
          cachalot_snapshot_destroy,
          cachalot_trace_write,
          cachalot_trace_read,
          cachalot_trace_get_info,
          cachalot_trace_destroy,
          cachalot_replay_run,
          cachalot_replay_get_result,
          cachalot_replay_allocator,
          cachalot_replay_destroy,
          cachalot_report_create,
          cachalot_report_text,
          cachalot_report_advice,
          cachalot_report_destroy,
          cachalot_tenant_create,
          cachalot_tenant_begin,
          cachalot_tenant_destroy};
}
