// SPDX-License-Identifier: MIT OR Apache-2.0
#include "page_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "failure.h"
#include "numbers.h"

namespace cachalot::cli {
namespace {

namespace fs = std::filesystem;

Failure unwritable(const std::string& path) {
  return Failure(path + " cannot be written: " + std::strerror(errno));
}

// A device or a pipe stays.
void remove_file(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) fs::remove(path, error);
}

}  // namespace

void check_page_file(const std::string& path) {
  std::error_code error;
  const bool is_there = fs::exists(path, error);
  std::FILE* const file = std::fopen(path.c_str(), "ab");
  if (file == nullptr) throw unwritable(path);
  std::fclose(file);
  if (!is_there) remove_file(path);
}

void write_page(const std::string& path, const std::string& page, std::FILE* log) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) throw unwritable(path);
  const bool is_written = std::fwrite(page.data(), 1, page.size(), file) == page.size();
  const bool is_closed = std::fclose(file) == 0;
  if (!is_written || !is_closed) {
    const Failure failure = unwritable(path);
    remove_file(path);
    throw failure;
  }
  std::fprintf(log, "%s: %s\n", path.c_str(), mebibytes(page.size()).c_str());
}

}  // namespace cachalot::cli
