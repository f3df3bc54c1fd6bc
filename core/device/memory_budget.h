// SPDX-License-Identifier: MIT OR Apache-2.0
// A device that is told to be smaller than it is: what may be obtained from it, and what has been.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace cachalot {

class MemoryBudget {
 public:
  // What a number is the key of: an address, a handle, or a ticket of what is being asked for.
  enum class Kind { kTicket, kAddress, kHandle };

  // limit: bytes; 0: none, and nothing is kept account of.
  explicit MemoryBudget(uint64_t limit) : limit_(limit) {}

  bool has_limit() const { return limit_ != 0; }
  uint64_t limit() const { return limit_; }
  uint64_t left();  // pre: has_limit()

  // Before the device is asked; nothing if there is not so much left.
  std::optional<uint64_t> take(uint64_t size);
  // Afterwards: under which key it will be given back. pre: the ticket of take(). Cannot fail...
  void keep(uint64_t ticket, Kind kind, uint64_t key) noexcept;
  // ...or that nothing came of it.
  void give_back(uint64_t ticket) { give_back(Kind::kTicket, ticket); }
  void give_back(Kind kind, uint64_t key);

 private:
  const uint64_t limit_;
  Mutex lock_{LockRank::kMemoryBudget};
  uint64_t used_ = 0;
  uint64_t last_ticket_ = 0;
  std::map<std::pair<Kind, uint64_t>, uint64_t> sizes_;
};

}  // namespace cachalot
