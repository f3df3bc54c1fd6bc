// SPDX-License-Identifier: MIT OR Apache-2.0
// A file for the time of a run, to which the processes of a program append lines.
#pragma once

#include <string>
#include <vector>

namespace cachalot::cli {

class LineFile {
 public:
  LineFile();  // throws Failure
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  const std::string& path() const { return path_; }
  std::vector<std::string> lines() const;

 private:
  std::string path_;
};

}  // namespace cachalot::cli
