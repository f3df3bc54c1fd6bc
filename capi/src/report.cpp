// SPDX-License-Identifier: MIT OR Apache-2.0
// Reports and their rows.
#include "cachalot/report.h"

#include "core_of.h"
#include "values.h"

namespace cachalot::capi {
namespace {

static_assert(static_cast<int32_t>(Reason::kNotSplit) == CACHALOT_REASON_NOT_SPLIT);
static_assert(CACHALOT_REASON_NOT_SPLIT + 1 == kReasonCount);
static_assert(static_cast<int32_t>(Outcome::kFails) == CACHALOT_OUTCOME_FAILS);
static_assert(CACHALOT_OUTCOME_FAILS + 1 == kOutcomeCount);

const Report& report_of(const cachalot_report* report) { return require(report, "report").core; }

cachalot_report_numbers write_report_numbers(const Report& report) {
  return {.struct_size = sizeof(cachalot_report_numbers),
          .device = report.device,
          .outcome = static_cast<int32_t>(report.outcome),
          .requested = report.requested,
          .size = report.size,
          .segment_size = report.segment_size,
          .stream = report.stream,
          .pool = write_pool_id(report.pool),
          .is_small = report.is_small,
          .reserved_0 = 0,
          .device_total = report.device_total,
          .device_free = report.device_free,
          .limit = report.limit,
          .reserved = report.reserved,
          .allocated = report.allocated,
          .pending = report.pending,
          .cached = report.cached,
          .largest_free_block = report.largest_free_block,
          .releasable = report.releasable,
          .asleep = report.asleep};
}

cachalot_report_holder write_holder(const HolderRow& row) {
  return {.struct_size = sizeof(cachalot_report_holder),
          .label = row.label.c_str(),
          .stream = row.stream,
          .pool = write_pool_id(row.pool),
          .blocks = row.blocks,
          .bytes = row.bytes,
          .requested = row.requested,
          .tenant = row.tenant,
          .reserved_0 = 0};
}

cachalot_report_reason write_reason(const CachedRow& row) {
  return {.struct_size = sizeof(cachalot_report_reason),
          .reason = static_cast<int32_t>(row.reason),
          .reserved_0 = 0,
          .blocks = row.blocks,
          .bytes = row.bytes,
          .largest = row.largest,
          .releasable = row.releasable};
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_report_create(cachalot_allocator* allocator,
                                       const cachalot_report_options* options,
                                       cachalot_report** out_report, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    const cachalot_report_options in = read_options(options);
    cachalot_report*& out = require(out_report, "out_report");
    Request request;
    request.size = in.size;
    request.device = in.device;
    request.stream = in.stream;
    out = new cachalot_report(core.report(request));
  });
}

void cachalot_report_destroy(cachalot_report* report) { delete live_or_null(report); }

cachalot_status cachalot_report_get_numbers(const cachalot_report* report,
                                            cachalot_report_numbers* out_numbers) {
  return guard(nullptr, [&] {
    write_struct(out_numbers, write_report_numbers(report_of(report)), "out_numbers");
  });
}

size_t cachalot_report_holder_count(const cachalot_report* report) {
  return live_or_null(report) ? report->core.holders.size() : 0;
}

cachalot_status cachalot_report_get_holder(const cachalot_report* report, size_t index,
                                           cachalot_report_holder* out_holder) {
  return guard(nullptr, [&] {
    const HolderRow& row = row_at(report_of(report).holders, index, "holder");
    write_struct(out_holder, write_holder(row), "out_holder");
  });
}

size_t cachalot_report_reason_count(const cachalot_report* report) {
  return live_or_null(report) ? report->core.reasons.size() : 0;
}

cachalot_status cachalot_report_get_reason(const cachalot_report* report, size_t index,
                                           cachalot_report_reason* out_reason) {
  return guard(nullptr, [&] {
    const CachedRow& row = row_at(report_of(report).reasons, index, "reason");
    write_struct(out_reason, write_reason(row), "out_reason");
  });
}

const char* cachalot_report_advice(const cachalot_report* report) {
  return live_or_null(report) ? report->core.advice.c_str() : "";
}

cachalot_status cachalot_report_text(const cachalot_report* report, char* buffer, size_t capacity,
                                     size_t* out_length, cachalot_error* error) {
  return guard(error,
               [&] { write_text(buffer, capacity, out_length, report_text(report_of(report))); });
}

cachalot_status cachalot_report_json(const cachalot_report* report, char* buffer, size_t capacity,
                                     size_t* out_length, cachalot_error* error) {
  return guard(error,
               [&] { write_text(buffer, capacity, out_length, report_json(report_of(report))); });
}

const char* cachalot_report_reason_name(int32_t reason) {
  const char* name = reason_name(reason);
  return name != nullptr ? name : "unknown";
}

const char* cachalot_report_outcome_name(int32_t outcome) {
  const char* name = outcome_name(outcome);
  return name != nullptr ? name : "unknown";
}
