// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocks straight from the driver, because caching is off [core 21]: no rounding, statistics or
// history.
#pragma once

#include <atomic>
#include <optional>
#include <unordered_map>

#include "alloc/heap/request.h"
#include "base/mutex.h"

namespace cachalot {

// Owns a row for each block that was made while caching was off. The rows outlive the switch, since
// a block goes back the way it was made. Any thread.
class UncachedBlocks {
 public:
  explicit UncachedBlocks(Driver& driver) : driver_(driver) {}

  Address allocate(const Request& request);
  bool free(Address address);  // false: not one of these
  void free_all();
  std::optional<BlockInfo> info(Address address);
  // Without a lock, so that a free of a cached block pays one load for it.
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  bool empty() const { return count() == 0; }

 private:
  using Rows = std::unordered_map<Address, Request>;

  // Throws for an address that cannot be a new block.
  void keep(Address address, const Request& request);
  void set_count();

  Driver& driver_;
  Mutex lock_{LockRank::kUncachedBlocks};
  Rows blocks_;
  std::atomic<uint64_t> count_{0};
};

}  // namespace cachalot
