// SPDX-License-Identifier: MIT OR Apache-2.0
// A new file that this user alone may read.
#pragma once

#include <string>
#include <string_view>

namespace cachalot::capi {

class PrivateFile {
 public:
  // Does not touch a file that there is already.
  explicit PrivateFile(std::string path);
  ~PrivateFile();
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;

  bool is_made() const { return file_ >= 0; }
  // Whether it was not made because there is one already.
  bool is_taken() const;

  // Throws Error(kIo), also if the file was not made.
  void write(std::string_view bytes) const;

 private:
  const std::string path_;
  const int file_;
  const int problem_;  // errno of a file that was not made
};

}  // namespace cachalot::capi
