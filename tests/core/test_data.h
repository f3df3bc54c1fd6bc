// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the files that the tests compare with.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace cachalot {

// path: from the root of the source tree.
inline std::string read_source_file(const std::string& path) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  std::ifstream file(root / path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + (root / path).string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace cachalot
