// SPDX-License-Identifier: MIT OR Apache-2.0
#include "table.h"

#include <algorithm>
#include <numeric>

namespace cachalot::cli {
namespace {

constexpr const char* kIndent = "  ";
constexpr size_t kGap = 3;

}  // namespace

void Table::add(std::vector<std::string> row) {
  for (std::string& cell : row)
    for (char& c : cell)
      if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  rows_.push_back(std::move(row));
}

void Table::print(std::FILE* out) const {
  const std::vector<size_t> width = widths();
  const size_t all = std::accumulate(width.begin(), width.end(), kGap * (width.size() - 1));
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); i++) {
      if (i > 0) line.append(kGap, ' ');
      const std::string padding(width[i] - row[i].size(), ' ');
      line += alignment_[i] == 'r' ? padding + row[i] : row[i] + padding;
    }
    if (row.empty()) line.assign(all, '-');
    line.erase(line.find_last_not_of(' ') + 1);
    std::fprintf(out, "%s%s\n", kIndent, line.c_str());
  }
}

std::vector<size_t> Table::widths() const {
  std::vector<size_t> width(alignment_.size());
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); i++) width[i] = std::max(width[i], row[i].size());
  return width;
}

}  // namespace cachalot::cli
