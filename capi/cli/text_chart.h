// SPDX-License-Identifier: MIT OR Apache-2.0
// A chart of memory over time in characters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cachalot::cli {

// Equal parts of a run: the most of each series in them.
struct ChartColumns {
  std::vector<uint64_t> requested;
  std::vector<uint64_t> reserved;
};

// Lines of a chart so many characters high: requested as full bars, reserved above it as shaded ones.
std::vector<std::string> text_chart(const ChartColumns& columns, size_t height);

}  // namespace cachalot::cli
