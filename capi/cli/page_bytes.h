// SPDX-License-Identifier: MIT OR Apache-2.0
// The page as page/compose.cmake puts it together when the program is built.
#pragma once

#include <cstddef>

namespace cachalot::cli {

extern const unsigned char kPageBytes[];
extern const size_t kPageSize;

}  // namespace cachalot::cli
