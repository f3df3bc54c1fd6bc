// SPDX-License-Identifier: MIT OR Apache-2.0
// The fields of a stream that a hit needs: see Note [Streams] in stream_table.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "device/device.h"

namespace cachalot {

struct Shard;
struct StreamFreeList;

// A line of its own, since hits of neighbouring streams would otherwise share it. The shard never
// changes; the stream does, when the entry is vacant and another one takes it.
struct alignas(64) StreamEntry {
  StreamEntry(Shard* of, Stream first) : stream(first), shard(of) {}

  std::atomic<Stream> stream;
  Shard* const shard;
  // Of the default pools, by is_small, so that a hit takes no branch; null: none yet.
  std::array<StreamFreeList*, 2> default_lists{};
  uint32_t lists = 0;          // of all pools
  int requests_under_way = 0;  // that hold no lock; the entry keeps its stream meanwhile
  bool is_listed = false;      // among the vacant ones

  bool is_vacant() const { return lists == 0 && requests_under_way == 0; }
};

}  // namespace cachalot
