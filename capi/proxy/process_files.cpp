// SPDX-License-Identifier: MIT OR Apache-2.0
#include "process_files.h"

#include <fcntl.h>
#include <unistd.h>

namespace cachalot::proxy {

// A list that cannot be written to is no reason to disturb the program.
void append_line(const std::string& list, const std::string& line) {
  if (list.empty()) return;
  const int file = open(list.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
  close(file);
}

}  // namespace cachalot::proxy
