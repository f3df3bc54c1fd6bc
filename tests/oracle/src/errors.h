// SPDX-License-Identifier: MIT OR Apache-2.0
// How exceptions of PyTorch are written.
#pragma once
#include <exception>
#include <string>

namespace oracle {

// "KIND TEXT": the kind in the words of Python where PyTorch maps it, and the text's first line
// (or all of it, with line breaks as \n).
std::string describe(const std::exception& error);

}  // namespace oracle
