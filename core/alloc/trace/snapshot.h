// SPDX-License-Identifier: MIT OR Apache-2.0
// A snapshot of an allocator: immutable rows, in the reference's order (devices, then addresses).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "alloc/config/rules.h"
#include "alloc/config/settings.h"
#include "alloc/trace/history.h"

namespace cachalot {

enum class BlockState : int32_t { kInactive, kAllocated, kPendingFree };

// A block at the moment of the snapshot.
struct BlockRow {
  Address address;
  uint64_t size;
  uint64_t requested;
  BlockState state;
  ContextId context;
};

// A segment, or one contiguous mapped part of an expandable segment, with its blocks as a range of
// the list of all blocks. Bytes.
struct SegmentRow {
  int32_t device;
  Address address;
  uint64_t total_size = 0;
  uint64_t allocated_size = 0;
  uint64_t active_size = 0;
  uint64_t requested_size = 0;
  Stream stream;
  PoolId pool;
  bool is_large;
  bool is_expandable;
  int64_t number;
  ContextId context;
  size_t first_block;
  size_t block_count = 0;
};

struct ExpandableSegmentRow {
  Stream stream;
  uint64_t mapped_size;
  bool is_small;
};

// A copy that nothing changes any more: it outlives the allocator.
struct Snapshot {
  std::vector<SegmentRow> segments;
  std::vector<BlockRow> blocks;
  std::vector<std::vector<TraceEntry>> traces;  // by device
  Settings settings;
  Release release = Release::k2_15;  // that the allocator follows
  // What contexts mean, where a recording tells it and no allocator; null: nothing is told.
  std::shared_ptr<const std::unordered_map<ContextId, std::string>> context_texts;
};

}  // namespace cachalot
