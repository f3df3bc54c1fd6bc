// SPDX-License-Identifier: MIT OR Apache-2.0
// The libraries that the process has loaded, among which an adapter finds its host.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace cachalot {

// Keeps a library loaded.
using LibraryHandle = std::unique_ptr<void, int (*)(void*)>;

// dlopen; null if it fails.
LibraryHandle open_library(const char* path, int flags);

// The names of those that are loaded, in their order; false without memory for them.
bool list_loaded_libraries(std::vector<std::string>* names);

// One of that list, which may be gone by now: then it is null. The program itself has no name; with it come those that
// are loaded for all. A library also has the symbols of those that it depends on.
LibraryHandle reopen_library(const std::string& name);

}  // namespace cachalot
