// SPDX-License-Identifier: MIT OR Apache-2.0
// The file that a command writes its page into.
#pragma once

#include <cstdio>
#include <string>

namespace cachalot::cli {

// For a command that works for minutes before it has a page: throws Failure if none could be written there. Leaves
// nothing behind, and an older page as it is.
void check_page_file(const std::string& path);

// Says into log in a line how large it is. Throws Failure; what has been written of the page is removed then.
void write_page(const std::string& path, const std::string& page, std::FILE* log);

}  // namespace cachalot::cli
