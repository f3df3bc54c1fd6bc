// SPDX-License-Identifier: MIT OR Apache-2.0
// Names of functions, by addr2line of the binutils: it reads what compilers leave in programs and libraries.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace cachalot::cli {

// A place in a file, in bytes.
using CodePlace = std::pair<std::string, uint64_t>;

// "main at /work/server.c:42" of each place that addr2line knows; others are not in the map. Without addr2line: none.
std::map<CodePlace, std::string> names_of(const std::set<CodePlace>& places);

}  // namespace cachalot::cli
