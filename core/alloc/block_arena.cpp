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

Block* BlockArena::add_chunk(DeviceAllocator* owner) {
  std::lock_guard guard(growing_);
  const uint32_t index = chunk_count_.load();
  if (index == kMaxChunks) throw std::bad_alloc();
  auto* chunk = static_cast<Chunk*>(map_zero_pages(sizeof(Chunk)));
  chunk->owner = owner;
  // Number 0 means "none" in the address table, so the very first block is left out.
  const uint32_t first = index == 0 ? 1 : 0;
  for (uint32_t i = first; i < kChunkBlocks; i++) {
    chunk->blocks[i].number = (index << kChunkBits) + i;
    chunk->blocks[i].right = i + 1 < kChunkBlocks ? &chunk->blocks[i + 1] : nullptr;
  }
  chunks_[index].store(chunk, std::memory_order_release);
  chunk_count_.store(index + 1);
  return &chunk->blocks[first];
}

}  // namespace cachalot
