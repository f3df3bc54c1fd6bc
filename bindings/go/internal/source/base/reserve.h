// SPDX-License-Identifier: MIT OR Apache-2.0
// Room in a vector ahead of the changes that must not fail for want of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cachalot {

// At least doubles the room: std::vector::reserve gives what it is asked for, so that asking for one
// more each time copies all elements each time.
template <class Value>
void reserve_for(std::vector<Value>& values, size_t count) {
  if (count > values.capacity()) values.reserve(std::max(count, 2 * values.capacity()));
}

template <class Value>
void reserve_one_more(std::vector<Value>& values) {
  reserve_for(values, values.size() + 1);
}

}  // namespace cachalot
