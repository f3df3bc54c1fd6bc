// SPDX-License-Identifier: MIT OR Apache-2.0
// Files that each process of a program has of its own, and lists to which all of them write.
#pragma once

#include <cstdint>
#include <string>

namespace cachalot::proxy {

// The path, with the process in the place of %p.
std::string path_of_process(const std::string& path, int64_t process);

// Appends the line, with its line break, as a whole. Other processes append to the file as well. list: "": none.
void append_line(const std::string& list, const std::string& line);

}  // namespace cachalot::proxy
