// SPDX-License-Identifier: MIT OR Apache-2.0
// The expected file, and how values are written in it.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

namespace oracle {

// The expected file, open from the start of a run on.
extern FILE* out;

// Writes one line of an answer, indented under its operation.
void line(const std::string& text);

std::string hex(uint64_t value);
inline std::string hex(const void* address) { return hex(reinterpret_cast<uint64_t>(address)); }

std::string first_line(const std::string& text);

}  // namespace oracle
