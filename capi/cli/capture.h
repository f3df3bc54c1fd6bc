// SPDX-License-Identifier: MIT OR Apache-2.0
// What another program prints.
#pragma once

#include <string>
#include <vector>

namespace cachalot::cli {

// The lines of its standard output; none if it cannot be started. Its standard error is passed over.
std::vector<std::string> lines_of_output(const std::vector<std::string>& command);

}  // namespace cachalot::cli
