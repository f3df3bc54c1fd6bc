// SPDX-License-Identifier: MIT OR Apache-2.0
// The last request of each thread that could not be served.
#pragma once

#include "cachalot/cachalot.h"

namespace cachalot::ort {

// Where a request goes.
struct Place {
  int32_t device = 0;
  cachalot_stream stream = 0;
};

// Keeps the error, and for an out of memory a report about the request, for which alone the allocator
// is needed; null: none.
void remember_failure(cachalot_allocator* allocator, uint64_t size, const Place& place,
                      const cachalot_error& error) noexcept;

}  // namespace cachalot::ort
