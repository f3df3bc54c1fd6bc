// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/block_arena.h"

#include <algorithm>

#include "base/pages.h"

namespace cachalot {

BlockArena::BlockArena()
    : chunks_(static_cast<std::atomic<Chunk*>*>(map_zero_pages(kMaxChunks * sizeof(Chunk*)))) {}

BlockArena::~BlockArena() {
  for (uint32_t i = 0; i < chunk_count_; i++) unmap_pages(chunks_[i].load(), sizeof(Chunk));
  unmap_pages(chunks_, kMaxChunks * sizeof(Chunk*));
}

Block* BlockArena::add(Shard* owner, uint32_t count) {
  CACHALOT_ASSERT(1, owner && count > 0);
  const std::lock_guard guard(growing_);
  if (next_run_ == kChunkBlocks / kRun) add_chunk();
  Chunk* const chunk = chunks_[chunk_count_ - 1];
  const uint32_t first = next_run_;
  const uint32_t end = std::min(first + (count + kRun - 1) / kRun, kChunkBlocks / kRun);
  for (uint32_t run = first; run < end; run++) {
    CACHALOT_ASSERT(1, chunk->header.owners[run] == nullptr);
    chunk->header.owners[run] = owner;
  }
  for (uint32_t i = first * kRun; i + 1 < end * kRun; i++)
    chunk->blocks[i].right = &chunk->blocks[i + 1];
  next_run_ = end;
  return &chunk->blocks[size_t{first} * kRun];
}

void BlockArena::add_chunk() {
  growing_.assert_held();
  const uint32_t index = chunk_count_.load();
  if (index == kMaxChunks) throw std::bad_alloc();
  auto* chunk = static_cast<Chunk*>(map_aligned_zero_pages(sizeof(Chunk)));
  chunk->header.first_number = index << kChunkBits;
  chunks_[index].store(chunk, std::memory_order_release);
  chunk_count_.store(index + 1);
  next_run_ = kFirstRun;
}

}  // namespace cachalot
