// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocks and segments: the objects that all other parts work on.
//
// Glossary
//   segment   one range obtained from the driver: plain (one allocation) or expandable (reserved
//             addresses, partly backed by pages). CUDA calls the first an allocation; we keep that
//             word for blocks.
//   block     a piece of a segment. The blocks of a segment form a list in address order that
//             covers it.
//   split     a block with a neighbour: its segment cannot be given back while the neighbour is in
//             use.
//   hand-out  the allocation of a block to a caller. The caller has the block until the free.
//   used      handed out.
//   waiting   freed by the caller, but other streams may still work on it, or a capture orders it.
//   active    used or waiting.
//   free      neither used nor waiting: in its pool's free set or, if unmapped, in its unmapped set.
//   waiting hole  addresses whose pages have moved while the device may still use them: unmapped and waiting,
//             in no set, and not active. The driver still has them mapped (serving/waiting_holes.h).
//   allocated = sizes of used blocks; active = sizes of active blocks; reserved = sizes of plain
//   segments and mapped pages; inactive split = sizes of free split blocks of plain segments.
//
// Invariants
//   A block's segment, stream and pool never change while it is in a segment.
//   No two neighbours are both free and both mapped, or both unmapped.
//   The `ends` block of a segment, which counts as used, is before its first block and behind its
//   last, so neither merging nor "is it split" needs to test for an end.
//   Block objects are never unmapped while their allocator lives, and are reused on the same device
//   only. So an address can be looked up without a lock (address_table.h).
#pragma once

#include <cstdint>
#include <memory>

#include "alloc/trace/history.h"
#include "base/assert.h"
#include "device/device.h"

namespace cachalot {

struct Block;
struct BlockPool;
struct Segment;
struct SegmentCopy;
struct StreamFreeList;
struct StreamUses;
class PageTable;

// The fields that a hit does not need. They lie apart from the blocks (block_arena.h): so they take
// no room in the caches, and their pages stay untouched where no call needs them.
struct alignas(64) BlockDetail {
  ContextId context;          // of the hand-out
  ContextId segment_context;  // of the call that obtained the segment, as far as this block knows
                              // (P32)
  StreamUses* uses;           // with kRecorded only
  uint32_t mark;              // the pool's search count when it became free last [core 13.3]; of a
                              // whole block the pool's count of frees
  uint32_t label;             // the labels of the thread that asked; 0: none
  uint32_t tenant;            // that has it while it is used; 0: the default tenant
  uint32_t preserved_for;     // the last copy that the row was preserved for, or 0
  uint64_t red_zone;          // where it begins, in bytes from the block's begin; 0: there is none
  uint64_t idle_since;        // with kIdle only: nanoseconds of the clock that trim was given
};
static_assert(sizeof(BlockDetail) == 64);

// A block in a sorted list, or the end of the list (free_blocks.h).
struct FreeNode {
  uint64_t size;
  FreeNode* left;
  FreeNode* right;
};

// One line of the cache. As a FreeNode it has its size and its neighbours in a list of the free set.
struct alignas(64) Block : FreeNode {
  enum Flag : uint64_t {
    kUsed = 1,
    kWaiting = 2,
    kUnmapped = 4,
    kExpandable = 8,
    kRecorded = 16,  // detail().uses is set
    kIdle = 32,      // see Note [Idle memory] (backend/trim.h)
    kForeign = 64,   // other streams than the segment's have or had it (serving/stream_order.h)
    kWhole = 128,    // of a pool with whole blocks: it is its segment (pools/whole_blocks.h)
    kShared =
        256,  // other processes may use it: it is not its caller's to free (native/block_sharing.h)
    kAllFlags = 511,
  };

  Address address;
  uint64_t requested;  // what was last asked of it; not cleared by a free [core 9.6]
  Block* prev;         // neighbours in the segment
  Block* next;
  uint64_t home;  // where its segment is, with the flags in the low bits

  // pre: a block of an arena.
  BlockDetail& detail();
  const BlockDetail& detail() const { return const_cast<Block*>(this)->detail(); }

  // pre: it is in a segment.
  Segment* segment() const {
    CACHALOT_ASSERT(1, home > kAllFlags);
    return reinterpret_cast<Segment*>(home & ~uint64_t{kAllFlags});
  }
  uint64_t flags() const { return home & kAllFlags; }
  bool is(uint64_t flag) const { return (home & flag) != 0; }
  // The check of a guess of the address table. pre: the lock of its shard.
  bool is_live_at(Address where) const { return address == where && is(kUsed); }
  bool is_live_around(Address where) const {
    return address <= where && where - address < size && is(kUsed);
  }
  bool is_free() const { return !is(kUsed | kWaiting); }
  bool is_mapped_and_free() const { return !is(kUsed | kWaiting | kUnmapped); }
  bool is_split() const { return prev != next; }  // alone, both are the segment's `ends`

  void set_home(Segment* segment, uint64_t flags) {
    CACHALOT_ASSERT(1, (reinterpret_cast<uint64_t>(segment) & kAllFlags) == 0);
    CACHALOT_ASSERT(1, flags <= kAllFlags);
    home = reinterpret_cast<uint64_t>(segment) | flags;
  }
  void set_flags(uint64_t flags) {
    CACHALOT_ASSERT(1, flags <= kAllFlags);
    home = (home & ~uint64_t{kAllFlags}) | flags;
  }
  void set(Flag flag) { home |= flag; }
  void clear(Flag flag) { home &= ~uint64_t{flag}; }
};
static_assert(sizeof(Block) == 64);

// Blocks lie in chunks (block_arena.h); the details of a chunk lie behind its blocks, in their
// order.
constexpr uint32_t kChunkBits = 17;
constexpr uint32_t kChunkBlocks = uint32_t{1} << kChunkBits;

inline BlockDetail& Block::detail() {
  CACHALOT_ASSERT(1, reinterpret_cast<uintptr_t>(this) % (2 * sizeof(Block) * kChunkBlocks) <
                         kChunkBlocks * sizeof(Block));
  return *reinterpret_cast<BlockDetail*>(reinterpret_cast<uintptr_t>(this) +
                                         kChunkBlocks * sizeof(Block));
}

// Owned by its heap. A plain one is one allocation of the driver or of a pool's source, which takes
// it back as a whole.
struct alignas(512) Segment {
  Address address = 0;
  uint64_t size = 0;   // expandable: of the reserved range
  int64_t number = 0;  // the order in which segments were obtained (R2)
  Stream stream = 0;
  BlockPool* pool = nullptr;
  StreamFreeList* list = nullptr;    // the free blocks of its pool and stream
  Stream source_stream = 0;          // what a pool's own source was given
  std::unique_ptr<PageTable> pages;  // expandable ones only
  SegmentCopy* copy = nullptr;       // while one is made
  bool has_stream_ended = false;     // a range that no longer has a page goes then [policy P8]
  Block ends{};

  Block* first() const { return ends.next; }
  bool is_expandable() const { return pages != nullptr; }
};
static_assert(alignof(Segment) > Block::kAllFlags, "the low bits of its address are free");

}  // namespace cachalot
