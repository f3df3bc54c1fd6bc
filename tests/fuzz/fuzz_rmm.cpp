// SPDX-License-Identifier: MIT OR Apache-2.0
// Logs of RMM's: any text.
#include <string_view>

#include "../../capi/cli/rmm_log.h"
#include "converted.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cachalot_test::check_converted([&] {
    return cachalot::cli::trace_of_rmm_log({reinterpret_cast<const char*>(data), size});
  });
  return 0;
}
