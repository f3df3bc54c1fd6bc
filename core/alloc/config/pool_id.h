// SPDX-License-Identifier: MIT OR Apache-2.0
// Names a private pool; (0, 0) means the default pools.
#pragma once

#include <compare>
#include <cstdint>

namespace cachalot {

// A graph's pool has a first number, a user's pool a second one; the other number is 0.
struct PoolId {
  uint64_t first = 0;
  uint64_t second = 0;

  auto operator<=>(const PoolId&) const = default;
  bool is_default() const { return first == 0 && second == 0; }
  uint64_t hash() const { return first != 0 ? first : second; }  // the reference's (hash_order.h)
};

}  // namespace cachalot
