// SPDX-License-Identifier: MIT OR Apache-2.0
// Small texts made of numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cachalot {

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// "0x7f0000000000".
std::string hex_address(uint64_t address);

// Two lower-case digits a byte.
std::string hex_digits(std::span<const uint8_t> bytes);

// A size as the reference prints it in its error texts: "512 bytes", "1.50 MiB" [core 16.3].
std::string format_size(uint64_t bytes);

// "80GiB": a whole number above 0, in bytes or with B, KiB, MiB, GiB or TiB. Nothing for any other text, and
// for a number beyond 64 bits.
std::optional<uint64_t> parse_bytes(std::string_view text);

// The path of a file that each process has of its own: with the process in the place of %p.
std::string path_of_process(const std::string& path, int64_t process);

}  // namespace cachalot
