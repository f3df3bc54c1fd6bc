// SPDX-License-Identifier: MIT OR Apache-2.0
#include "error.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace cachalot {

cachalot_status fail(cachalot_error* error, cachalot_status status, const char* format, ...) {
  cachalot_error record = CACHALOT_ERROR_INIT;
  record.status = status;
  va_list values;
  va_start(values, format);
  std::vsnprintf(record.message, sizeof record.message, format, values);
  va_end(values);
  copy_error(record, error);
  return status;
}

void copy_error(const cachalot_error& from, cachalot_error* to) {
  if (to == nullptr) return;
  const size_t size = std::min(to->struct_size, sizeof from);
  if (size <= offsetof(cachalot_error, message)) return;
  const size_t callers = to->struct_size;
  std::memcpy(to, &from, size);
  to->struct_size = callers;
  to->message[size - offsetof(cachalot_error, message) - 1] = '\0';
}

void print_error(const char* what, const cachalot_error& error) {
  std::fprintf(stderr, "cachalot: %s: %s\n", what, error.message);
}

}  // namespace cachalot
