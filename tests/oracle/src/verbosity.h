// SPDX-License-Identifier: MIT OR Apache-2.0
// What the `log` words of a script add to the output.
#pragma once
#include <string>

namespace oracle {

struct Verbosity {
  bool observer = false, rejection = false, context = false;
  bool whole_text = false, metadata = false, counter = false;

  // Switches a word on. The device's own words go to the simulated runtime.
  void add(const std::string& word);
};

extern Verbosity verbosity;

}  // namespace oracle
