// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/block_arena.h"

#include "base/pages.h"

namespace cachalot {

BlockArena::BlockArena()
    : chunks_(static_cast<std::atomic<Chunk*>*>(map_zero_pages(kMaxChunks * sizeof(Chunk*)))) {}

BlockArena::~BlockArena() {
  for (uint32_t i = 0; i < chunk_count_; i++) unmap_pages(chunks_[i].load(), sizeof(Chunk));
  unmap_pages(chunks_, kMaxChunks * sizeof(Chunk*));
}

Block* BlockArena::add_chunk(Shard* owner) {
  std::lock_guard guard(growing_);
  const uint32_t index = chunk_count_.load();
  if (index == kMaxChunks) throw std::bad_alloc();
  auto* chunk = static_cast<Chunk*>(map_aligned_zero_pages(sizeof(Chunk)));
  chunk->header = {owner, index << kChunkBits};
  for (uint32_t i = 1; i + 1 < kChunkBlocks; i++) chunk->blocks[i].right = &chunk->blocks[i + 1];
  chunks_[index].store(chunk, std::memory_order_release);
  chunk_count_.store(index + 1);
  return &chunk->blocks[1];
}

}  // namespace cachalot
