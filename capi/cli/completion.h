// SPDX-License-Identifier: MIT OR Apache-2.0
// Scripts by which shells complete the command line.
#pragma once

#include <string>

#include "command_tree.h"

namespace cachalot::cli {

std::string bash_completion(const CommandText& program);
std::string zsh_completion(const CommandText& program);
std::string fish_completion(const CommandText& program);

}  // namespace cachalot::cli
