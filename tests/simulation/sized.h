// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstring>

namespace cachalot_test {

// A struct of the C interface that says how long it is.
template <typename Struct>
Struct sized() {
  Struct made;
  std::memset(&made, 0, sizeof made);
  made.struct_size = sizeof made;
  return made;
}

}  // namespace cachalot_test
