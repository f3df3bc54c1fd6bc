// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/recording_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace cachalot {
namespace {

// The last line of a file that another one goes on from.
constexpr std::string_view kContinued = "# continued\n";

}  // namespace

RecordingFiles::RecordingFiles(const std::string& path, uint64_t keep, std::string_view header)
    : keep_(keep) {
  make_file(path, header);
}

void RecordingFiles::make_file(const std::string& path, std::string_view header) {
  auto file = std::make_unique<RecordingFile>(path);
  file->append(header);
  path_ = file->path();
  file_ = std::move(file);
}

bool RecordingFiles::append(std::string_view lines) {
  if (file_ != nullptr) return file_->append(lines);
  lost_ += static_cast<uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
  return false;
}

// A reader that follows the file finds the next one by its name, so that is there first.
void RecordingFiles::set_file_aside(std::string_view header) {
  const std::unique_ptr<RecordingFile> full = std::move(file_);
  bytes_before_ += full->size();
  const bool is_renamed = std::rename(path_.c_str(), (path_ + ".before").c_str()) == 0;
  const int code = errno;
  try {
    if (!is_renamed)
      throw Error(Status::kIo, path_ + ": cannot be renamed: " + std::strerror(code));
    make_file(path_, header);
  } catch (...) {
    full->close(kContinued);
    throw;
  }
  full->close(kContinued);
  append(format("# file %llx\n", static_cast<unsigned long long>(++file_number_)));
}

void RecordingFiles::close(std::string_view last_line) {
  if (file_ != nullptr) file_->close(last_line);
}

}  // namespace cachalot
