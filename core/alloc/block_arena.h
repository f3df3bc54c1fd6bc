// SPDX-License-Identifier: MIT OR Apache-2.0
// Where block objects live: numbered, in chunks, never given back before the end. A number fits in 32
// bits, which halves the address table. Runs of a chunk's blocks belong to one shard each, so a number
// tells the shard without touching the block.
#pragma once

#include <atomic>
#include <cstddef>

#include "alloc/block.h"
#include "base/assert.h"
#include "base/mutex.h"

namespace cachalot {

struct Shard;

class BlockArena {
 public:
  static constexpr uint32_t kMaxChunks = uint32_t{1} << 18;  // 2^30 blocks

  BlockArena();
  ~BlockArena();
  BlockArena(const BlockArena&) = delete;
  BlockArena& operator=(const BlockArena&) = delete;

  // New blocks for a shard, about as many as asked, linked through `right`. Throws std::bad_alloc.
  Block* add(Shard* owner, uint32_t count);

  struct Located {
    Shard* shard = nullptr;  // that the block belongs to
    Block* block = nullptr;
  };
  // pre: number is that of a block. Any thread, no lock. No block has the number 0.
  Located locate(uint32_t number) const {
    CACHALOT_ASSERT(1, is_given(number));
    Chunk* const home = chunk(number);
    const uint32_t place = number % kChunkBlocks;
    return {home->header.owners[place / kRun], &home->blocks[place]};
  }
  // Chunks are aligned to their size, so a block finds the header of its own. pre: a block of an
  // arena.
  static uint32_t number_of(const Block* block) {
    const auto place = reinterpret_cast<uintptr_t>(block);
    const auto* home = reinterpret_cast<const Chunk*>(place & ~(sizeof(Chunk) - 1));
    CACHALOT_ASSERT(1, is_of(*home, block));
    return home->header.first_number +
           static_cast<uint32_t>((place % sizeof(Chunk)) / sizeof(Block));
  }
  // Bytes asked of the system; it gives pages as they are touched.
  uint64_t bytes() const { return chunk_count_.load(std::memory_order_relaxed) * sizeof(Chunk); }

  static constexpr uint32_t kRun = 8;

 private:
  struct Header {
    uint32_t first_number;
    Shard* owners[kChunkBlocks / kRun];
  };
  struct Chunk {
    union {  // the header is where the first blocks would be
      Header header;
      Block blocks[kChunkBlocks];
    };
    BlockDetail details[kChunkBlocks];
  };
  static_assert(offsetof(Chunk, details) == sizeof(Chunk) / 2);
  static constexpr uint32_t kFirstRun =
      (sizeof(Header) + kRun * sizeof(Block) - 1) / (kRun * sizeof(Block));

  void add_chunk();
  static bool is_of(const Chunk& chunk, const Block* block) {
    return block >= &chunk.blocks[size_t{kFirstRun} * kRun] && block < &chunk.blocks[kChunkBlocks];
  }
  // Whether it is in a run that some shard has.
  bool is_given(uint32_t number) const {
    const Chunk* const found = chunk(number);
    return found && found->header.owners[(number % kChunkBlocks) / kRun] != nullptr;
  }
  Chunk* chunk(uint32_t number) const {
    CACHALOT_ASSERT(1, number >> kChunkBits < kMaxChunks);
    return chunks_[number >> kChunkBits].load(std::memory_order_acquire);
  }

  Mutex growing_{LockRank::kBlockArena};
  std::atomic<uint32_t> chunk_count_{0};
  uint32_t next_run_ = kChunkBlocks / kRun;  // of the last chunk; guarded by growing_
  std::atomic<Chunk*>* chunks_;              // kMaxChunks of them, touched as needed
};

}  // namespace cachalot
