// SPDX-License-Identifier: MIT OR Apache-2.0
// A recording as tables for people.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "cachalot/cachalot.h"

namespace cachalot::cli {

// For commands that take such option strings.
inline constexpr const char* kTryHelp =
    "An option string whose effect is forecast, like expandable_segments:True; may be repeated";
// With "" before them.
std::vector<std::string> with_defaults(const std::vector<std::string>& options);

// Whether its events are calls of the driver, not those of an allocator.
bool is_recording_of_program(const cachalot_trace* trace);

// file: what it is called. options: option strings whose effect is forecast; the first is "" for none. places: how many
// of the places in the program that ask for the most are shown. Throws Failure.
void print_recording(const cachalot_trace* trace, const std::string& file,
                     const std::vector<std::string>& options, size_t places, std::FILE* out);

}  // namespace cachalot::cli
