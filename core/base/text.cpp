// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/text.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include "base/assert.h"
#include "base/units.h"

namespace cachalot {

std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  CACHALOT_ASSERT(1, length >= 0);  // the pattern is one of ours
  std::string text(static_cast<size_t>(length < 0 ? 0 : length), '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string hex_address(uint64_t address) { return format("0x%" PRIx64, address); }

std::string format_size(uint64_t bytes) {
  if (bytes <= KiB) return format("%" PRIu64 " bytes", bytes);
  const auto in = [&](uint64_t unit) {
    return static_cast<double>(bytes) / static_cast<double>(unit);
  };
  if (bytes <= MiB) return format("%.2f KiB", in(KiB));
  if (bytes <= GiB) return format("%.2f MiB", in(MiB));
  return format("%.2f GiB", in(GiB));
}

}  // namespace cachalot
