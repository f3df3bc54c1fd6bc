// SPDX-License-Identifier: MIT OR Apache-2.0
// Whose decisions are made, and the options of the serving policy (docs/policy.md), which are not the
// reference's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cachalot {

// When cached memory of another stream serves a request.
enum class Borrow { kFirst, kAtLimit, kNever };

struct ServingOptions {
  bool is_on = false;
  bool thrift = false;  // idle pages serve before any new one
  Borrow borrow = Borrow::kFirst;
  // The program tells when a stream ends, before it destroys it. Else no handle of a lender is used.
  bool announces_streams = false;
  // A power of two, 1 GiB at most. 0: 2 MiB, or the least that the driver has if that is more. Also where the
  // reference decides: then of its expandable segments; 0: as it has them.
  uint64_t page_bytes = 0;
};

// Throws Error(kInvalidArgument) for values that no policy has.
void check_serving(const ServingOptions& options);

// "pytorch", or "serving" and its options: "serving,thrift,page=8MiB,borrow=at_limit,streams=announced". The
// page goes with both. whose: what an error says of the text. Throws Error(kInvalidArgument).
ServingOptions parse_policy(std::string_view text, const char* whose);

}  // namespace cachalot
