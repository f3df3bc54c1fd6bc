// SPDX-License-Identifier: MIT OR Apache-2.0
// `cachalot measure`: what the driver's calls cost on the GPU at hand, for `cachalot tune --costs`.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "../failure.h"

namespace cachalot::cli {

struct MeasureCall {
  int device = 0;
  std::string out;  // a file; "": standard output
  uint64_t most_bytes = uint64_t{8} << 30;
  unsigned rounds = 5;
};

void add_measure_command(CLI::App* app, MeasureCall* call);
// Throws Failure.
ExitCode run_measure_command(const MeasureCall& call);

}  // namespace cachalot::cli
