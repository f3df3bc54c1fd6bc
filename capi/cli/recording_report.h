// SPDX-License-Identifier: MIT OR Apache-2.0
// A recording as tables for people.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace cachalot::cli {

// options: option strings whose effect is forecast; the first is "" for none. places: how many of the places in the
// program that ask for the most are shown. Throws Failure.
void print_recording(const std::string& file, const std::vector<std::string>& options,
                     size_t places, std::FILE* out);

}  // namespace cachalot::cli
