// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory for block objects, in chunks that stay mapped until the end. Each object has a number of 32
// bits, which makes the address table half as large as pointers would.
//
// Note [Owners of blocks]
// Rationale: a free has to know a block's shard before it reads the block, because only the shard's
// lock keeps other threads from writing to it.
// Approach: a shard owns blocks in runs of 8, so that a shard that needs few takes few. With many blocks
// the owners of runs would fill the caches, so then a shard gets groups of 512, which have one owner.
// The first groups always consist of runs: where both kinds mix, the branch between them cannot be
// predicted.
#pragma once

#include <atomic>
#include <cstddef>

#include "alloc/heap/block.h"
#include "base/assert.h"
#include "base/mutex.h"

namespace cachalot {

struct Shard;

class BlockArena {
 public:
  static constexpr uint32_t kRun = 8;
  static constexpr uint32_t kGroup = 512;
  static constexpr uint32_t kMaxChunks = uint32_t{1} << (30 - kChunkBits);  // 2^30 blocks

  BlockArena();
  ~BlockArena();
  BlockArena(const BlockArena&) = delete;
  BlockArena& operator=(const BlockArena&) = delete;

  // New blocks for a shard, at least kRun and at most about as many as asked, linked through `next`.
  // Throws std::bad_alloc.
  Block* add(Shard* owner, uint32_t count);

  struct Located {
    Shard* shard = nullptr;  // that the block belongs to
    Block* block = nullptr;
  };
  // pre: number is that of a block. Any thread, no lock. No block has the number 0.
  [[gnu::always_inline]] Located locate(uint32_t number) const {
    CACHALOT_ASSERT(1, is_given(number));
    Chunk& home = *chunk(number);
    const uint32_t place = number % kChunkBlocks;
    return {home.owner(place), &home.blocks[place]};
  }
  // Chunks are aligned to their size, so a block finds the header of its own. pre: a block of an
  // arena.
  static uint32_t number_of(const Block* block) {
    const Chunk& home = chunk_of(block);
    CACHALOT_ASSERT(1, is_of(home, block));
    return home.header.first_number +
           static_cast<uint32_t>((reinterpret_cast<uintptr_t>(block) % sizeof(Chunk)) /
                                 sizeof(Block));
  }
  // The block with this number in the arena of another one; 0: null.
  static Block* block_beside(const Block* other, uint32_t number) {
    CACHALOT_ASSERT(1, is_of(chunk_of(other), other));
    return number == 0 ? nullptr : chunk_of(other).header.arena->locate(number).block;
  }
  // Bytes of addresses; the system gives pages as they are touched.
  uint64_t bytes() const { return chunk_count_.load(std::memory_order_relaxed) * sizeof(Chunk); }

 private:
  static constexpr uint32_t kGroups = kChunkBlocks / kGroup;
  struct Header {
    uint32_t first_number;
    const BlockArena* arena;
    Shard* group_owners[kGroups];  // null: runs have owners
    Shard* run_owners[kChunkBlocks / kRun];
  };
  struct Chunk {
    union {  // the header is where the first blocks would be
      Header header;
      Block blocks[kChunkBlocks];
    };
    BlockDetail details[kChunkBlocks];

    Shard* owner(uint32_t place) const {
      Shard* const of_group = header.group_owners[place / kGroup];
      return of_group ? of_group : header.run_owners[place / kRun];
    }
  };
  static_assert(sizeof(Chunk) == 2 * sizeof(Chunk::details));
  static constexpr uint32_t kFirstGroup =
      (sizeof(Header) + kGroup * sizeof(Block) - 1) / (kGroup * sizeof(Block));
  static constexpr uint32_t kFirstWithOwner = kFirstGroup + 16;  // of the first chunk
  static constexpr uint32_t kFirstHuge = kGroups / 4;            // in huge pages from here on
  // Numbers of one chunk.
  struct Range {
    uint32_t begin;
    uint32_t end;
  };

  Range take_runs(Shard* owner, uint32_t count);
  Range take_groups(uint32_t count);
  void add_chunk();
  static const Chunk& chunk_of(const Block* block) {
    const auto place = reinterpret_cast<uintptr_t>(block);
    return *reinterpret_cast<const Chunk*>(place & ~(sizeof(Chunk) - 1));
  }
  static bool is_of(const Chunk& chunk, const Block* block) {
    return block >= &chunk.blocks[size_t{kFirstGroup} * kGroup] &&
           block < &chunk.blocks[kChunkBlocks];
  }
  // Whether a shard has the block with this number.
  bool is_given(uint32_t number) const {
    const Chunk* const found = chunk(number);
    return found && found->owner(number % kChunkBlocks) != nullptr;
  }
  Chunk* chunk(uint32_t number) const {
    CACHALOT_ASSERT(1, number >> kChunkBits < kMaxChunks);
    return chunks_[number >> kChunkBits].load(std::memory_order_acquire);
  }

  Mutex growing_{LockRank::kBlockArena};
  std::atomic<uint32_t> chunk_count_{0};
  uint32_t next_group_ = kGroups;  // of the last chunk; guarded by growing_
  Range runs_{0, 0};               // what is left of groups whose runs have owners; likewise
  std::atomic<Chunk*>* chunks_;    // kMaxChunks of them, touched as needed
};

}  // namespace cachalot
