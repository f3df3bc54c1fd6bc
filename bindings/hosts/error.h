// SPDX-License-Identifier: MIT OR Apache-2.0
// Errors of the adapters for hosts, in the record of cachalot's.
#pragma once

#include "cachalot/cachalot.h"

namespace cachalot {

// Fills the caller's record, if there is one, and returns the status.
[[gnu::format(printf, 3, 4)]] cachalot_status fail(cachalot_error* error, cachalot_status status,
                                                   const char* format, ...);

// Makes a record ready without clearing all of it, which would cost more than a hit of the cache.
inline void start_error(cachalot_error& error) {
  error.struct_size = sizeof error;
  error.status = CACHALOT_OK;
  error.message[0] = '\0';
}

// Copies one record over another, as far as the latter goes.
void copy_error(const cachalot_error& from, cachalot_error* to);

// For functions whose contract has no way to report an error.
void print_error(const char* what, const cachalot_error& error);

}  // namespace cachalot
