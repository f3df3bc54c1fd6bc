// SPDX-License-Identifier: MIT OR Apache-2.0
// The blocks that are live at a point of a trace, by address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.h"

namespace cachalot {

struct LiveBlock {
  Address address = 0;  // 0: an empty place of the table
  uint32_t slot = 0;
  uint8_t device = 0;
  bool is_freed = false;            // requested to be, not completed
  uint32_t late_free = UINT32_MAX;  // index of its late free, if it has one
};

// An open-addressing table: a look-up is one line of cache, whatever addresses a file has: where
// they go depends on a number that it cannot know. Entries move, so pointers to them are
// good until the next insert or erase only.
class LiveBlocks {
 public:
  LiveBlocks();

  // Null: there is none.
  LiveBlock* find(Address address, uint8_t device);
  // pre: there is none.
  void insert(const LiveBlock& block);
  void erase(LiveBlock* block);  // pre: find() gave it, and nothing has changed since

 private:
  size_t home_of(Address address) const;
  LiveBlock* first_empty_place(Address address);
  void grow();

  std::vector<LiveBlock> places_;
  size_t mask_;
  size_t count_ = 0;
  const uint64_t salt_;
};

}  // namespace cachalot
