// SPDX-License-Identifier: MIT OR Apache-2.0
#include "loaded_libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <new>

namespace cachalot {
namespace {

int note_name(dl_phdr_info* info, size_t, void* user_data) {
  try {
    static_cast<std::vector<std::string>*>(user_data)->emplace_back(info->dlpi_name);
    return 0;
  } catch (const std::bad_alloc&) {
    return -1;
  }
}

}  // namespace

LibraryHandle open_library(const char* path, int flags) {
  return {::dlopen(path, flags), ::dlclose};
}

// Nothing is opened while they are listed: that takes locks in another order than a thread that loads one.
bool list_loaded_libraries(std::vector<std::string>* names) {
  return ::dl_iterate_phdr(note_name, names) == 0;
}

LibraryHandle reopen_library(const std::string& name) {
  return open_library(name.empty() ? nullptr : name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
}

}  // namespace cachalot
