// SPDX-License-Identifier: MIT OR Apache-2.0
// The first block in five lines: it goes back to the cache with its scope, and the allocator after it.
#include <cachalot/cachalot.hpp>
#include <cinttypes>
#include <cstdio>

int main() {
  cachalot::Allocator allocator;
  const cachalot::Block block = allocator.allocate(1 << 20);
  std::printf("1 MiB at %#" PRIx64 " on device 0\n", block.address());
}
