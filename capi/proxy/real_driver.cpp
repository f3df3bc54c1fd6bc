// SPDX-License-Identifier: MIT OR Apache-2.0
#include "real_driver.h"

#include <dlfcn.h>

#include <cstdio>

namespace cachalot::proxy {
namespace {

RealDriver find_all() {
  RealDriver driver;
  // It is loaded: the proxy depends on it.
  void* const library = dlopen(kRealDriver, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    std::fprintf(stderr, "cachalot: %s is not loaded: %s\n", kRealDriver, dlerror());
    return driver;
  }
#define CACHALOT_FIND(name, function, version, ...) \
  driver.name = reinterpret_cast<name##_form*>(dlsym(library, #name));
  CACHALOT_HOOKED(CACHALOT_FIND)
  CACHALOT_CALLED(CACHALOT_FIND)
#undef CACHALOT_FIND
  return driver;
}

}  // namespace

const RealDriver& real() {
  static const RealDriver driver = find_all();
  return driver;
}

}  // namespace cachalot::proxy
