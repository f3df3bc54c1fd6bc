// SPDX-License-Identifier: MIT OR Apache-2.0
// Numbers of 64 bits for formats with `ll`, on machines whose uint64_t is another type.
#pragma once

#include <cstdint>

namespace cachalot::policy_model {

inline unsigned long long wide(uint64_t n) { return n; }

}  // namespace cachalot::policy_model
