// SPDX-License-Identifier: MIT OR Apache-2.0
// Lists to which all processes of a program write.
#pragma once

#include <string>

namespace cachalot::proxy {

// Appends the line, with its line break, as a whole. Other processes append to the file as well. list: "": none.
void append_line(const std::string& list, const std::string& line);

}  // namespace cachalot::proxy
