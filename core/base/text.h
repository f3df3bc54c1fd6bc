// SPDX-License-Identifier: MIT OR Apache-2.0
// Small texts made of numbers.
#pragma once

#include <cstdint>
#include <string>

namespace cachalot {

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// "0x7f0000000000".
std::string hex_address(uint64_t address);

// A size as the reference prints it in its error texts: "512 bytes", "1.50 MiB" [core 16.3].
std::string format_size(uint64_t bytes);

}  // namespace cachalot
