// SPDX-License-Identifier: MIT OR Apache-2.0
// The contents of a ledger's memory: marks at single bytes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cachalot/cachalot.h"

namespace cachalot_test {

class LedgerContents {
 public:
  void write(cachalot_address address, uint64_t mark) { marks_[address] = mark; }
  // 0: none.
  uint64_t read(cachalot_address address) const {
    const auto found = marks_.find(address);
    return found == marks_.end() ? 0 : found->second;
  }
  void copy(cachalot_address to, cachalot_address from, uint64_t size) {
    const std::vector<std::pair<cachalot_address, uint64_t>> copied(
        marks_.lower_bound(from), marks_.lower_bound(from + size));
    drop(to, size);
    for (const auto& [address, mark] : copied) marks_[to + (address - from)] = mark;
  }
  void drop(cachalot_address address, uint64_t size) {
    marks_.erase(marks_.lower_bound(address), marks_.lower_bound(address + size));
  }

 private:
  std::map<cachalot_address, uint64_t> marks_;
};

}  // namespace cachalot_test
