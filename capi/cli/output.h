// SPDX-License-Identifier: MIT OR Apache-2.0
// A file to write: packed by gzip or xz where its name ends so.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace cachalot::cli {

class Encoder {
 public:
  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  virtual ~Encoder() = default;
  // Puts what comes of it behind `out`.
  virtual void encode(std::string_view bytes, std::string* out) = 0;
  virtual void finish(std::string* out) = 0;
};

// Throws Failure. What is not finished is removed.
class Output {
 public:
  explicit Output(const std::string& path);  // "-": standard output
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view bytes);
  void finish();

 private:
  void pass();
  void put(const std::string& bytes);

  const std::string path_;
  std::FILE* file_;
  std::unique_ptr<Encoder> encoder_;
  std::string pending_;
  bool is_finished_ = false;
};

}  // namespace cachalot::cli
