// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/sim_failures.h"

#include "base/assert.h"

namespace cachalot {

void SimFailures::order(const SimFailure& failure) {
  CACHALOT_ASSERT(1, failure.calls != 0 && failure.count > 0 && failure.code != kSuccess);
  auto& failures = failure.code == kDriverOutOfMemory ? out_of_memory_ : errors_;
  for (SimFailure& other : failures) {
    if (other.calls != failure.calls || other.code != failure.code) continue;
    other = failure;
    return;
  }
  failures.push_back(failure);
}

DriverCode SimFailures::count(SimCall call) {
  const DriverCode code = count(&errors_, call);
  return code != kSuccess ? code : count(&out_of_memory_, call);
}

DriverCode SimFailures::count(std::vector<SimFailure>* failures, SimCall call) {
  for (auto failure = failures->begin(); failure != failures->end(); ++failure) {
    if (!includes(failure->calls, call)) continue;
    if (failure->after > 0) {
      failure->after--;
      continue;
    }
    CACHALOT_ASSERT(1, failure->count > 0);
    const DriverCode code = failure->code;
    if (--failure->count == 0) failures->erase(failure);
    return code;
  }
  return kSuccess;
}

}  // namespace cachalot
