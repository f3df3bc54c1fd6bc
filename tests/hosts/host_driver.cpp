// SPDX-License-Identifier: MIT OR Apache-2.0
// What Numba asks of a driver beyond the functions of the fake one (tests/proxy), whose blocks are memory of the host:
// names, and copies, which are done when they return. Numba looks these up by their names without a version too.
#include <cstddef>
#include <cstdint>
#include <cstring>

#define DRIVER extern "C" [[gnu::visibility("default")]]

namespace {

int copy(void* to, const void* from, size_t size) {
  std::memmove(to, from, size);
  return 0;
}

void* at(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

DRIVER int cuDeviceGetName(char* name, int capacity, int) {
  std::strncpy(name, "host", static_cast<size_t>(capacity));
  return 0;
}

DRIVER int cuMemcpyHtoD(uint64_t to, const void* from, size_t size) {
  return copy(at(to), from, size);
}

DRIVER int cuMemcpyDtoH(void* to, uint64_t from, size_t size) { return copy(to, at(from), size); }

DRIVER int cuMemcpyDtoD(uint64_t to, uint64_t from, size_t size) {
  return copy(at(to), at(from), size);
}

DRIVER int cuMemcpyHtoDAsync(uint64_t to, const void* from, size_t size, void*) {
  return copy(at(to), from, size);
}
