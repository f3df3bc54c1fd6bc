// SPDX-License-Identifier: MIT OR Apache-2.0
#include "line_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "failure.h"

namespace cachalot::cli {

LineFile::LineFile()
    : path_((std::filesystem::temp_directory_path() / "cachalot-list-XXXXXX").string()) {
  const int file = mkstemp(path_.data());
  if (file < 0) throw Failure(path_ + " cannot be made");
  close(file);
}

LineFile::~LineFile() { unlink(path_.c_str()); }

std::vector<std::string> LineFile::lines() const {
  std::vector<std::string> lines;
  std::ifstream file(path_);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

}  // namespace cachalot::cli
