// SPDX-License-Identifier: MIT OR Apache-2.0
// Safe debugging of one device's memory: announcing it to tools, poison, red zones
// (docs/debugging.md).
//
// Note [Memory watch]
// Rationale: a cache hides misuse, since memory beyond a block, or of a freed one, still belongs to
// the process.
// Approach: with a watch every request takes the general path (kWatched), which tells the watch of
// segments and blocks. Without a watch nothing is added to a hit.
// Invariants: memory is touched only behind the work that is queued on the stream of its user, and
// never while that stream is captured, where the access would become a part of the graph.
// Limitations: where the driver fails, memory is not touched or not looked at. The failure shows in
// the next call that needs the driver.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alloc/config/debug_options.h"
#include "alloc/debug/nvtx_memory.h"
#include "alloc/heap/block.h"
#include "alloc/streams/captures.h"
#include "alloc/tenants/labels.h"
#include "alloc/trace/log.h"
#include "base/assert.h"

namespace cachalot {

// Its functions expect the device's lock to be held.
class MemoryWatch {
 public:
  // Throws Error(kNotSupported) for what the driver or this build cannot do.
  MemoryWatch(Driver& driver, const Captures& captures, const DebugOptions& options, int device,
              const Labels& labels, const Log& log);

  // The bytes that the allocator is asked for when a caller requests so many.
  uint64_t with_red_zone(uint64_t requested) const {
    return requested + (options_.red_zones ? kRedZone : 0);
  }

  // Memory has come from the driver, in pieces of this size; memory is about to go back, with all
  // heaps that begin in the range.
  void came(Address address, uint64_t size, uint64_t piece) noexcept;
  void goes(Address address, uint64_t size) noexcept;

  // A hand-out is over; a free completes, and the block is not reused yet.
  // stream: whose work on the block comes last; none: memory is not touched.
  void handed_out(Block* block, std::optional<Stream> stream) noexcept;
  void freed(Block* block, std::optional<Stream> stream) noexcept;

  // The text for a write beyond the end of a block in use; empty: there was none. Waits for the
  // stream.
  std::string damage(const Block* block, std::optional<Stream> stream) noexcept;

 private:
  static constexpr uint64_t kRedZone = 512;  // at least
  static constexpr uint8_t kRedZoneByte = 0xFB;
  static constexpr uint8_t kPoisonByte = 0xFF;  // a NaN in every format of floating-point numbers

  // The caller's bytes, without the red zone.
  uint64_t asked(const Block* block) const {
    CACHALOT_ASSERT(1, !options_.red_zones || block->requested >= kRedZone);
    return block->requested - (options_.red_zones ? kRedZone : 0);
  }
  // Whether memory can be read and written behind the work of the stream.
  bool may_touch(std::optional<Stream> stream) const;
  // From an offset to the end of the block. False: the memory was not touched.
  bool fill(const Block* block, uint64_t from, uint8_t byte, std::optional<Stream> stream) const;
  void set_region(const Block* block, uint64_t before, uint64_t after) const;
  // The text for a damaged red zone; empty: it is whole, or it could not be looked at.
  std::string look(const Block* block, std::optional<Stream> stream);
  std::string damage_text(const Block* block, uint64_t offset, uint8_t found, Stream stream) const;

  Driver& driver_;
  const Captures& captures_;
  const Labels& labels_;
  const Log& log_;
  const DebugOptions options_;
  const int device_;
  std::unique_ptr<NvtxMemory> nvtx_;  // null: not asked for
  std::vector<uint8_t> seen_;         // a part of a red zone
};

}  // namespace cachalot
