// SPDX-License-Identifier: MIT OR Apache-2.0
// The man page, cachalot(1).
#pragma once

#include <string>

#include "command_tree.h"

namespace cachalot::cli {

// In the language of roff, for man-db and mandoc.
std::string man_page(const CommandText& program);

}  // namespace cachalot::cli
