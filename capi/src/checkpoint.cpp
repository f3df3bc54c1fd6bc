// SPDX-License-Identifier: MIT OR Apache-2.0
// Checkpoints of private pools.
#include "cachalot/checkpoint.h"

#include <memory>
#include <utility>
#include <vector>

#include "alloc/pools/checkpoint.h"
#include "core_of.h"
#include "values.h"

struct cachalot_checkpoint : cachalot::capi::Handle<cachalot::capi::HandleKind::kCheckpoint> {
  explicit cachalot_checkpoint(cachalot::Checkpoint taken) : core(std::move(taken)) {}
  cachalot::Checkpoint core;
  size_t last_segment = 0;  // the number of the row that was added last
};

struct cachalot_checkpoint_changes
    : cachalot::capi::Handle<cachalot::capi::HandleKind::kCheckpointChanges> {
  cachalot::CheckpointChanges core;
};

namespace cachalot::capi {
namespace {

cachalot_checkpoint_row write_checkpoint_row(const CheckpointBlock& block, size_t segment) {
  return {.struct_size = sizeof(cachalot_checkpoint_row),
          .address = block.address,
          .size = block.size,
          .stream = block.stream,
          .segment = segment,
          .is_used = block.is_used,
          .is_mapped = block.is_mapped};
}

size_t rows_in(const Checkpoint& checkpoint) {
  size_t count = 0;
  for (const auto& blocks : checkpoint.segments) count += blocks.size();
  return count;
}

void write_address(const std::vector<Address>& addresses, size_t index,
                   cachalot_address* out_address) {
  cachalot_address& out = require(out_address, "out_address");
  if (index >= addresses.size())
    throw_invalid_argument(format("address %zu: there are %zu", index, addresses.size()));
  out = addresses[index];
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_checkpoint_take(cachalot_allocator* allocator, int32_t device,
                                         cachalot_pool_id id, cachalot_checkpoint** out_checkpoint,
                                         cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    cachalot_checkpoint*& out = require(out_checkpoint, "out_checkpoint");
    out = new cachalot_checkpoint(core.checkpoint_take(device, read_pool_id(id)));
  });
}

cachalot_status cachalot_checkpoint_create(cachalot_pool_id id,
                                           cachalot_checkpoint** out_checkpoint,
                                           cachalot_error* error) {
  return guard(error, [&] {
    cachalot_checkpoint*& out = require(out_checkpoint, "out_checkpoint");
    out = new cachalot_checkpoint(Checkpoint{read_pool_id(id), {}});
  });
}

cachalot_status cachalot_checkpoint_add(cachalot_checkpoint* checkpoint,
                                        const cachalot_checkpoint_row* row, cachalot_error* error) {
  return guard(error, [&] {
    cachalot_checkpoint& to = require(checkpoint, "checkpoint");
    require(row, "row");
    const cachalot_checkpoint_row in = read_options(row, "row");
    const CheckpointBlock block{.address = in.address,
                                .size = in.size,
                                .stream = in.stream,
                                .is_used = read_flag(in.is_used, "is_used"),
                                .is_mapped = read_flag(in.is_mapped, "is_mapped")};
    auto& segments = to.core.segments;
    if (segments.empty() || in.segment != to.last_segment) {
      segments.push_back({block});
    } else {
      segments.back().push_back(block);
    }
    to.last_segment = in.segment;
  });
}

void cachalot_checkpoint_destroy(cachalot_checkpoint* checkpoint) {
  delete live_or_null(checkpoint);
}

cachalot_status cachalot_checkpoint_pool(const cachalot_checkpoint* checkpoint,
                                         cachalot_pool_id* out_id) {
  return guard(nullptr, [&] {
    const PoolId id = require(checkpoint, "checkpoint").core.pool;
    require(out_id, "out_id") = {id.first, id.second};
  });
}

size_t cachalot_checkpoint_row_count(const cachalot_checkpoint* checkpoint) {
  return live_or_null(checkpoint) ? rows_in(checkpoint->core) : 0;
}

cachalot_status cachalot_checkpoint_row_at(const cachalot_checkpoint* checkpoint, size_t index,
                                           cachalot_checkpoint_row* out_row) {
  return guard(nullptr, [&] {
    const Checkpoint& core = require(checkpoint, "checkpoint").core;
    size_t first = 0;
    for (size_t segment = 0; segment < core.segments.size(); segment++) {
      const auto& blocks = core.segments[segment];
      if (index - first < blocks.size())
        return write_struct(out_row, write_checkpoint_row(blocks[index - first], segment),
                            "out_row");
      first += blocks.size();
    }
    throw_invalid_argument(format("row %zu: the checkpoint has %zu", index, first));
  });
}

cachalot_status cachalot_checkpoint_apply(cachalot_allocator* allocator, int32_t device,
                                          const cachalot_checkpoint* checkpoint,
                                          cachalot_checkpoint_changes** out_changes,
                                          cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    const Checkpoint& in = require(checkpoint, "checkpoint").core;
    // Before anything changes, since there may be no memory for it.
    auto changes = std::make_unique<cachalot_checkpoint_changes>();
    changes->core = core.checkpoint_apply(device, in);
    if (out_changes != nullptr) *out_changes = changes.release();
  });
}

void cachalot_checkpoint_changes_destroy(cachalot_checkpoint_changes* changes) {
  delete live_or_null(changes);
}

size_t cachalot_checkpoint_freed_count(const cachalot_checkpoint_changes* changes) {
  return live_or_null(changes) ? changes->core.freed.size() : 0;
}

cachalot_status cachalot_checkpoint_freed_at(const cachalot_checkpoint_changes* changes,
                                             size_t index, cachalot_address* out_address) {
  return guard(nullptr,
               [&] { write_address(require(changes, "changes").core.freed, index, out_address); });
}

size_t cachalot_checkpoint_created_count(const cachalot_checkpoint_changes* changes) {
  return live_or_null(changes) ? changes->core.created.size() : 0;
}

cachalot_status cachalot_checkpoint_created_at(const cachalot_checkpoint_changes* changes,
                                               size_t index, cachalot_address* out_address) {
  return guard(nullptr, [&] {
    write_address(require(changes, "changes").core.created, index, out_address);
  });
}
