// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/error.h"

#include "base/text.h"

namespace cachalot {

void require_row(size_t index, size_t count, const char* name) {
  if (index >= count)
    throw_invalid_argument(format("there is no %s %zu: there are %zu", name, index, count));
}

}  // namespace cachalot
