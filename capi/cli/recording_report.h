// SPDX-License-Identifier: MIT OR Apache-2.0
// A recording as tables for people.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace cachalot::cli {

// options: option strings whose effect is forecast; the first is "" for none. Throws Failure.
void print_recording(const std::string& file, const std::vector<std::string>& options,
                     std::FILE* out);

}  // namespace cachalot::cli
