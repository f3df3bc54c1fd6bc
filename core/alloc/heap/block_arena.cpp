// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/heap/block_arena.h"

#include <algorithm>
#include <utility>

#include "base/pages.h"

namespace cachalot {

// The table of chunks is address space: the system gives memory for the part that is written.
BlockArena::BlockArena()
    : chunks_(static_cast<std::atomic<Chunk*>*>(map_zero_pages(kMaxChunks * sizeof(Chunk*)))) {}

BlockArena::~BlockArena() {
  for (uint32_t i = 0; i < chunk_count_; i++) unmap_pages(chunks_[i].load(), sizeof(Chunk));
  unmap_pages(chunks_, kMaxChunks * sizeof(Chunk*));
}

// The objects are zeros, as BlockSupply::take() gives them. Each is given once, so what a reader
// finds by a number it was told always belongs to the same shard.
Block* BlockArena::add(Shard* owner, uint32_t count) {
  CACHALOT_ASSERT(1, owner && count > 0);
  const std::lock_guard guard(growing_);
  // A program with few blocks never comes so far, so it sees runs only (Note [Owners of blocks]).
  const bool is_late = chunk_count_ > 1 || (chunk_count_ == 1 && next_group_ >= kFirstWithOwner);
  Range range{0, 0};
  if (count >= kGroup && is_late) {
    range = take_groups(count / kGroup);
    Header& header = chunk(range.begin)->header;
    for (uint32_t number = range.begin; number < range.end; number += kGroup) {
      CACHALOT_ASSERT(1, !is_given(number));
      header.group_owners[number % kChunkBlocks / kGroup] = owner;
    }
  } else {
    range = take_runs(owner, count);
  }
  Block* const first = locate(range.begin).block;
  Block* const last = first + (range.end - range.begin - 1);
  for (Block* b = first; b != last; b++) b->next = b + 1;
  return first;
}

// What is left of groups that were begun for runs comes first.
BlockArena::Range BlockArena::take_runs(Shard* owner, uint32_t count) {
  growing_.assert_held();
  if (runs_.begin == runs_.end) runs_ = take_groups((count + kGroup - 1) / kGroup);
  const uint32_t end = std::min(runs_.begin + (count + kRun - 1) / kRun * kRun, runs_.end);
  Header& header = chunk(runs_.begin)->header;
  for (uint32_t number = runs_.begin; number < end; number += kRun) {
    CACHALOT_ASSERT(1, !is_given(number));
    header.run_owners[number % kChunkBlocks / kRun] = owner;
  }
  return {std::exchange(runs_.begin, end), end};
}

// At most to the end of the chunk, so a range never spans two.
BlockArena::Range BlockArena::take_groups(uint32_t count) {
  growing_.assert_held();
  if (next_group_ == kGroups) add_chunk();
  const uint32_t index = chunk_count_ - 1;
  const uint32_t begin = next_group_;
  next_group_ = std::min(begin + count, kGroups);
  // Only a program with many live blocks comes so far. Its misses of the translation cache cost more
  // than the memory that huge pages waste.
  if (begin < kFirstHuge && next_group_ >= kFirstHuge) {
    Block* const rest = chunks_[index].load()->blocks + size_t{kFirstHuge} * kGroup;
    prefer_huge_pages(rest, size_t{kGroups - kFirstHuge} * kGroup * sizeof(Block));
  }
  const uint32_t first_number = index << kChunkBits;
  return {first_number + begin * kGroup, first_number + next_group_ * kGroup};
}

void BlockArena::add_chunk() {
  growing_.assert_held();
  const uint32_t index = chunk_count_;
  if (index == kMaxChunks) throw std::bad_alloc();
  auto* const chunk = static_cast<Chunk*>(map_aligned_zero_pages(sizeof(Chunk)));
  // A huge page would back thousands of blocks for the first one.
  prefer_small_pages(chunk, sizeof(Chunk));
  chunk->header.first_number = index << kChunkBits;
  chunk->header.arena = this;
  // Readers take no lock: the header is complete before they can find it.
  chunks_[index].store(chunk, std::memory_order_release);
  chunk_count_ = index + 1;
  next_group_ = kFirstGroup;
}

}  // namespace cachalot
