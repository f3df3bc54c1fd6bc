// SPDX-License-Identifier: MIT OR Apache-2.0
// Looks at options before a program starts, which can take hours.
#pragma once

#include <cstdio>
#include <string>

#include "cachalot/cachalot.h"

namespace cachalot::cli {

// A policy as users write it. Throws Failure.
cachalot_policy read_policy(const std::string& text);

// Throws Failure if no allocator can have them.
void check_options(const std::string& config, const cachalot_policy& policy);

// One line for the user, where the program's own exit code is what counts.
inline void tell_user(const std::string& text) {
  std::fprintf(stderr, "cachalot: %s\n", text.c_str());
}

}  // namespace cachalot::cli
