// SPDX-License-Identifier: MIT OR Apache-2.0
// Snapshots and their rows.
#include "cachalot/snapshot.h"

#include "alloc/tools/snapshot_pickle.h"
#include "core_of.h"
#include "trace_handles.h"
#include "values.h"

namespace cachalot::capi {
namespace {

static_assert(static_cast<int32_t>(BlockState::kInactive) == CACHALOT_BLOCK_INACTIVE);
static_assert(static_cast<int32_t>(BlockState::kAllocated) == CACHALOT_BLOCK_ALLOCATED);
static_assert(static_cast<int32_t>(BlockState::kPendingFree) == CACHALOT_BLOCK_PENDING_FREE);

const Snapshot& rows_of(const cachalot_snapshot* snapshot) {
  return require(snapshot, "snapshot").core;
}

const std::vector<TraceEntry>& entries_of(const Snapshot& snapshot, int32_t device) {
  if (device < 0) throw_invalid_argument(format("there is no device %d", device));
  return row_at(snapshot.traces, static_cast<size_t>(device), "device with history");
}

cachalot_segment_row write_segment(const SegmentRow& segment) {
  return {.struct_size = sizeof(cachalot_segment_row),
          .device = segment.device,
          .is_large = segment.is_large,
          .address = segment.address,
          .total_size = segment.total_size,
          .allocated_size = segment.allocated_size,
          .active_size = segment.active_size,
          .requested_size = segment.requested_size,
          .stream = segment.stream,
          .pool = write_pool_id(segment.pool),
          .is_expandable = segment.is_expandable,
          .reserved_0 = 0,
          .number = segment.number,
          .context = segment.context,
          .first_block = segment.first_block,
          .block_count = segment.block_count};
}

cachalot_block_row write_block_row(const BlockRow& block) {
  return {.struct_size = sizeof(cachalot_block_row),
          .address = block.address,
          .size = block.size,
          .requested_size = block.requested,
          .state = static_cast<int32_t>(block.state),
          .reserved_0 = 0,
          .context = block.context};
}

// Those of the snapshot itself come first.
std::function<std::string(ContextId)> context_texts(const Snapshot& snapshot,
                                                    cachalot_allocator* allocator) {
  const auto describe = allocator != nullptr ? core_of(allocator).contexts().describe
                                             : decltype(ContextSource::describe)();
  return [texts = snapshot.context_texts, describe](ContextId context) -> std::string {
    if (texts != nullptr)
      if (const auto found = texts->find(context); found != texts->end()) return found->second;
    return describe ? describe(context) : "";
  };
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_snapshot_take(cachalot_allocator* allocator,
                                       const cachalot_snapshot_options* options,
                                       cachalot_snapshot** out_snapshot, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    const cachalot_snapshot_options in = read_options(options);
    cachalot_snapshot*& out = require(out_snapshot, "out_snapshot");
    const bool with_history = !read_flag(in.without_history, "without_history");
    out = new cachalot_snapshot(core.snapshot(read_pool_id_or_all(in.pool), with_history));
  });
}

void cachalot_snapshot_destroy(cachalot_snapshot* snapshot) { delete live_or_null(snapshot); }

size_t cachalot_snapshot_segment_count(const cachalot_snapshot* snapshot) {
  return live_or_null(snapshot) ? snapshot->core.segments.size() : 0;
}

cachalot_status cachalot_snapshot_segment(const cachalot_snapshot* snapshot, size_t index,
                                          cachalot_segment_row* out_row) {
  return guard(nullptr, [&] {
    const Snapshot& core = rows_of(snapshot);
    write_struct(out_row, write_segment(row_at(core.segments, index, "segment")), "out_row");
  });
}

size_t cachalot_snapshot_block_count(const cachalot_snapshot* snapshot) {
  return live_or_null(snapshot) ? snapshot->core.blocks.size() : 0;
}

cachalot_status cachalot_snapshot_block(const cachalot_snapshot* snapshot, size_t index,
                                        cachalot_block_row* out_row) {
  return guard(nullptr, [&] {
    const Snapshot& core = rows_of(snapshot);
    write_struct(out_row, write_block_row(row_at(core.blocks, index, "block")), "out_row");
  });
}

size_t cachalot_snapshot_entry_count(const cachalot_snapshot* snapshot, int32_t device) {
  size_t count = 0;
  guard(nullptr, [&] { count = entries_of(rows_of(snapshot), device).size(); });
  return count;
}

cachalot_status cachalot_snapshot_entry(const cachalot_snapshot* snapshot, int32_t device,
                                        size_t index, cachalot_trace_entry* out_entry) {
  return guard(nullptr, [&] {
    const TraceEntry& entry = row_at(entries_of(rows_of(snapshot), device), index, "entry");
    write_struct(out_entry, write_trace_entry(entry), "out_entry");
  });
}

cachalot_status cachalot_snapshot_write_pickle(const cachalot_snapshot* snapshot,
                                               cachalot_allocator* allocator,
                                               cachalot_write_fn write, void* user_data,
                                               cachalot_error* error) {
  return guard(error, [&] {
    const Snapshot& core = rows_of(snapshot);
    const WriteBytes pass_on = write_through(write, user_data);
    write_snapshot_pickle(core, context_texts(core, allocator), pass_on);
  });
}

cachalot_status cachalot_snapshot_settings(const cachalot_snapshot* snapshot,
                                           cachalot_settings* out_settings) {
  return guard(nullptr, [&] {
    write_struct(out_settings, write_settings(rows_of(snapshot).settings), "out_settings");
  });
}

const char* cachalot_snapshot_config(const cachalot_snapshot* snapshot) {
  return live_or_null(snapshot) ? snapshot->core.settings.config.c_str() : "";
}
