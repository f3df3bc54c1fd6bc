// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/program.h"

namespace cachalot {

bool can_give_up_itself(const TraceHeader& header, double fraction) {
  const auto names = [&](const char* option) {
    return header.config.find(option) != std::string::npos;
  };
  const bool is_limited = fraction != 0 || names("per_process_memory_fraction");
  return header.stat("num_alloc_retries") > 0 ||
         (is_limited && names("garbage_collection_threshold"));
}

}  // namespace cachalot
