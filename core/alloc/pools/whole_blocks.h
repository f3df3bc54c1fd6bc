// SPDX-License-Identifier: MIT OR Apache-2.0
// A private pool each of whose blocks is an allocation of the driver.
//
// Note [Whole blocks]
// Rationale: a handle for another process is one of a whole allocation of the driver. Blocks that can be
// exported are neither split nor merged, so what is cached of one size is lost to all others.
// Approach: three rules, chosen by replays (docs/benchmarks.md).
//   Class  a new block has the size of its request's class. There are eight classes a doubling, but the
//          driver's own steps are no finer than 512 bytes, and 2 MiB above 1 MiB. They stand in the place of
//          roundup_power2_divisions.
//   Fit    a request takes the smallest free block of its stream, unless that is more than a quarter larger
//          than what the driver would take for the request.
//   Bound  before the driver is asked for a block, cached blocks go back to it until the pool has no more
//          than five quarters of what the driver would have had to give at the peak. The one with the
//          largest product of size and age goes first.
// The first two make no block in use more than a quarter larger than needed, so the cache always has enough
// to keep the bound. What others keep from going back (pins, a capture) can exceed it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "alloc/config/constants.h"
#include "alloc/heap/block.h"
#include "base/assert.h"
#include "base/units.h"

namespace cachalot {

// What the driver takes for so many bytes: small allocations share its pages of 2 MiB.
constexpr uint64_t driver_step(uint64_t bytes) {
  return bytes > kSmallSize ? kRoundLarge : kMinBlockSize;
}
constexpr uint64_t driver_bytes(uint64_t bytes) { return round_up(bytes, driver_step(bytes)); }

// Owns the account of one pool. pre: the whole device, or the device's lock where no request of the pool is
// under way.
class WholeBlocks {
 public:
  static constexpr uint64_t kClassesOfDoubling = 8;

  static constexpr uint64_t with_quarter(uint64_t bytes) { return bytes + bytes / 4; }
  // pre (here and below): 0 < size < 2^60.
  static constexpr uint64_t class_of(uint64_t size) {
    const uint64_t step = (uint64_t{1} << log2_floor(size)) / kClassesOfDoubling;
    return round_up(size, std::max(step, driver_step(size)));
  }
  static constexpr bool fits(uint64_t block_size, uint64_t size) {
    return block_size <= with_quarter(driver_bytes(size));
  }

  // ---- Segments, which are blocks
  void obtained(uint64_t size) { reserved_ += size; }
  void given_back(Block* block) {
    CACHALOT_ASSERT(1, reserved_ >= block->size);
    reserved_ -= block->size;
    block->detail().mark = 0;  // garbage collection finds no mark of its own in an unused object
  }

  // ---- Requests. requested: of the block.
  void handed_out(uint64_t requested) {
    in_use_ += driver_bytes(requested);
    peak_ = std::max(peak_, in_use_);
  }
  // The free is complete: until then plain CUDA would have the memory, too.
  void freed(uint64_t requested) {
    CACHALOT_ASSERT(1, in_use_ >= driver_bytes(requested));
    in_use_ -= driver_bytes(requested);
  }
  // pre: the block has entered its free set, which marks it in its own way.
  void stamp(Block* block) { block->detail().mark = ++clock_; }

  // ---- The bound
  uint64_t reserved() const { return reserved_; }
  uint64_t in_use() const { return in_use_; }
  uint64_t peak() const { return peak_; }
  // With one more request.
  uint64_t most_reserved(uint64_t requested) const {
    return with_quarter(std::max(peak_, in_use_ + driver_bytes(requested)));
  }
  // The least worth keeping of the free blocks has the most of it. An age counts frees; the clock wraps, so
  // only the difference tells it.
  double burden_of(const Block* block) const {
    const uint32_t age = clock_ - block->detail().mark + 1;
    return static_cast<double>(block->size) * static_cast<double>(age);
  }

 private:
  uint64_t reserved_ = 0;
  uint64_t in_use_ = 0;  // what the driver would take for the requests of used and waiting blocks
  uint64_t peak_ = 0;    // of in_use_
  uint32_t clock_ = 0;   // counts frees
};

}  // namespace cachalot
