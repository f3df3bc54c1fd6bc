// SPDX-License-Identifier: MIT OR Apache-2.0
// Snapshots of PyTorch's: pickles of any bytes.
#include <string>

#include "../../capi/cli/torch_snapshot.h"
#include "converted.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cachalot_test::check_converted([&] {
    return cachalot::cli::trace_of_snapshot(std::string(reinterpret_cast<const char*>(data), size));
  });
  return 0;
}
