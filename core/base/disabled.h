// SPDX-License-Identifier: MIT OR Apache-2.0
// CACHALOT_DISABLE=1, the way back to the plain driver (docs/operating.md). The layers around the core ask for it; the
// core never reads the environment.
#pragma once

#include <cstdlib>
#include <string_view>

namespace cachalot {

inline bool is_disabled_by_environment() {
  const char* const value = secure_getenv("CACHALOT_DISABLE");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace cachalot
