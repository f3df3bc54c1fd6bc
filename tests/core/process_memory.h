// SPDX-License-Identifier: MIT OR Apache-2.0
// The memory of this process: how much it has, and none for a while.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "base/units.h"

namespace cachalot {

// Bytes that are really there, without what is mapped from files.
inline uint64_t anonymous_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  uint64_t kilobytes = 0;
  for (std::string line; std::getline(rollup, line);) {
    if (line.rfind("Anonymous:", 0) == 0) {
      kilobytes += std::stoull(line.substr(line.find(':') + 1));
    }
  }
  return kilobytes * KiB;
}

// While it lives the system maps nothing for this process. Small pieces of the heap can still be had.
class NoNewMemory {
 public:
  NoNewMemory() {
    getrlimit(RLIMIT_AS, &usual_);
    const rlimit none{0, usual_.rlim_max};
    setrlimit(RLIMIT_AS, &none);
  }
  ~NoNewMemory() { setrlimit(RLIMIT_AS, &usual_); }
  NoNewMemory(const NoNewMemory&) = delete;
  NoNewMemory& operator=(const NoNewMemory&) = delete;

 private:
  rlimit usual_{};
};

}  // namespace cachalot
