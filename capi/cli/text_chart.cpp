// SPDX-License-Identifier: MIT OR Apache-2.0
#include "text_chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "numbers.h"

namespace cachalot::cli {
namespace {

constexpr uint64_t kEighths = 8;
constexpr std::array<const char*, kEighths + 1> kBars{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr const char* kShade = "░";

// How many eighths of a character a bar is high: anything that is there is seen.
uint64_t eighths(uint64_t bytes, uint64_t most, size_t height) {
  const double share = static_cast<double>(bytes) / static_cast<double>(most);
  const auto high =
      static_cast<uint64_t>(std::lround(share * static_cast<double>(height * kEighths)));
  return bytes > 0 ? std::max<uint64_t>(high, 1) : 0;
}

const char* cell(uint64_t requested, uint64_t reserved, uint64_t below) {
  if (requested > below) return kBars[std::min(requested - below, kEighths)];
  return reserved >= below + kEighths / 2 ? kShade : kBars[0];
}

}  // namespace

std::vector<std::string> text_chart(const ChartColumns& columns, size_t height) {
  uint64_t most = 1;
  for (const auto* series : {&columns.requested, &columns.reserved})
    for (const uint64_t bytes : *series) most = std::max(most, bytes);
  const std::string top = mebibytes(most);
  std::vector<std::string> lines;
  for (size_t line = 0; line < height; line++) {
    const uint64_t below = (height - 1 - line) * kEighths;
    std::string text = line == 0 ? top : std::string(top.size(), ' ');
    if (line + 1 == height) text.back() = '0';
    text += " │";
    for (size_t i = 0; i < columns.requested.size(); i++)
      text += cell(eighths(columns.requested[i], most, height),
                   eighths(columns.reserved[i], most, height), below);
    lines.push_back(std::move(text));
  }
  return lines;
}

}  // namespace cachalot::cli
