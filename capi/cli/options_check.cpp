// SPDX-License-Identifier: MIT OR Apache-2.0
#include "options_check.h"

#include "failure.h"
#include "run.h"

namespace cachalot::cli {

cachalot_policy read_policy(const std::string& text) {
  cachalot_policy policy{};
  policy.struct_size = sizeof policy;
  cachalot_error error = CACHALOT_ERROR_INIT;
  check(cachalot_policy_read(text.c_str(), &policy, &error), error);
  return policy;
}

// By a replay of nothing. An allocator over a simulated device would be refused what CACHALOT_DEBUG asks for.
void check_options(const std::string& config, const cachalot_policy& policy) {
  ReplayCall call;
  call.config = config;
  call.policy = policy;
  replay_trace(parse_trace("# {\"format\":2}\n").get(), call);
}

}  // namespace cachalot::cli
