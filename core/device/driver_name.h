// SPDX-License-Identifier: MIT OR Apache-2.0
// Names of drivers as users write them: "host", "sim:80GiB", "cuda:cgroup".
#pragma once

#include <cstdint>
#include <string_view>

namespace cachalot {

enum class DriverKind { kCuda, kHost, kHostShared, kSim };

struct DriverName {
  DriverKind kind;
  uint64_t capacity = 0;          // bytes; 0: the driver's default
  bool has_group_limits = false;  // "cuda:cgroup"
};

// Throws Error(kInvalidArgument) for what is none.
DriverName parse_driver_name(std::string_view text);

}  // namespace cachalot
