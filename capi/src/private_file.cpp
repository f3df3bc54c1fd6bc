// SPDX-License-Identifier: MIT OR Apache-2.0
#include "private_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace cachalot::capi {
namespace {

[[noreturn]] void refuse_file(const std::string& path, const char* what, int code) {
  throw Error(Status::kIo, path + ": cannot be " + what + ": " + std::strerror(code));
}

}  // namespace

PrivateFile::PrivateFile(std::string path)
    : path_(std::move(path)),
      file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)),
      problem_(file_ < 0 ? errno : 0) {}

PrivateFile::~PrivateFile() {
  if (is_made()) close(file_);
}

bool PrivateFile::is_taken() const { return problem_ == EEXIST; }

void PrivateFile::write(std::string_view bytes) const {
  if (!is_made()) refuse_file(path_, "made", problem_);
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) refuse_file(path_, "written", errno);
    if (count > 0) bytes.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace cachalot::capi
