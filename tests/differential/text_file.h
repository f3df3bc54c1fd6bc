// SPDX-License-Identifier: MIT OR Apache-2.0
// Files as text, whether they are stored plain or compressed.
#pragma once

#include <string>

namespace cachalot::differential {

// The whole text of a file: plain, gzip or xz, told apart by the first bytes. Throws InputError.
std::string read_text_file(const std::string& path);

}  // namespace cachalot::differential
