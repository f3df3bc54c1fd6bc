// SPDX-License-Identifier: MIT OR Apache-2.0
// Numbers as people write them.
#pragma once

#include <cstdint>
#include <string>

namespace cachalot::cli {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

// "1,353,882".
std::string grouped(uint64_t number);
std::string grouped(int64_t number);

// "0x7f00a0".
std::string hexadecimal(uint64_t number);

// "7,355.2 MiB".
std::string mebibytes(uint64_t bytes);

// "139.8 GiB".
std::string gibibytes(uint64_t bytes);

// "89.1 %"; "-" of nothing.
std::string percent(double share);
std::string percent(uint64_t part, uint64_t whole);

// "0.42 ms", "87 ms".
std::string milliseconds(double number);

// "1.050"; "-" of nothing.
std::string ratio(uint64_t part, uint64_t whole);

// "3.4 million", "812,000".
std::string rounded(double number);

// A number above 0 with a unit: "80GiB", "512MiB", "85899345920". Throws Failure.
uint64_t parse_capacity(const std::string& text);

}  // namespace cachalot::cli
