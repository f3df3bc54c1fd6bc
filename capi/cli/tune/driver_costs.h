// SPDX-License-Identifier: MIT OR Apache-2.0
// What the driver's calls cost on a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cachalot/cachalot.h"

namespace cachalot::cli {

class DriverCosts {
 public:
  struct Point {
    uint64_t size;
    // A call, on the calling thread: right behind others, and when the processor has done other things for
    // 10 milliseconds.
    double warm_ns;
    double cold_ns;
  };

  // "H100", "H200": measured before; any other: a file that `cachalot measure` has written. Throws Failure.
  static DriverCosts of(const std::string& gpu_or_file);
  static DriverCosts parse(const std::string& json, const std::string& name);

  const std::string& name() const { return name_; }
  // Of one size. Between two sizes that were measured the cost is on a line; above the last it grows with the size.
  Point at(const std::string& function, uint64_t size) const;
  double ns(const std::vector<cachalot_replay_call>& calls) const;

 private:
  std::string name_;
  std::map<std::string, std::vector<Point>> points_;  // by function, sizes ascending
};

}  // namespace cachalot::cli
