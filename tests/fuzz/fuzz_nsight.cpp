// SPDX-License-Identifier: MIT OR Apache-2.0
// Reports of Nsight Systems: SQLite files of any bytes, which the reader opens by a path.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "../../capi/cli/nsight_export.h"
#include "converted.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using cachalot_test::require;
  const int file = memfd_create("report", 0);
  require(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size), "no file");
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  cachalot_test::check_converted([&] { return cachalot::cli::trace_of_nsight_export(path, 0); });
  close(file);
  return 0;
}
