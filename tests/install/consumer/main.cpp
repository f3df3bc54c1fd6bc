// SPDX-License-Identifier: MIT OR Apache-2.0
// The same by the headers of C++20, once over the simulated device and once by a container of the standard library.
#include <cachalot/memory_resource.hpp>
#include <cstdio>
#include <memory_resource>
#include <vector>

int main() {
  try {
    cachalot::Allocator simulated({.driver = cachalot::Driver("sim:1GiB").get(), .config = ""});
    if (!simulated.allocate(1000)) return 1;
    cachalot::Allocator host({.driver = cachalot::Driver("host:64MiB").get(), .config = ""});
    cachalot::StreamResource resource(host.get());
    return std::pmr::vector<int>(100, 7, &resource).back() == 7 ? 0 : 1;
  } catch (const cachalot::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
