// SPDX-License-Identifier: MIT OR Apache-2.0
// Asks tenants to free memory for one request, one at a time [tenant 5]. A tenant with a pool that can be put to
// sleep is not asked itself.
#pragma once

#include <cstdint>

#include "alloc/tenants/tenants.h"

namespace cachalot {

// One request's way through the tenants that may be asked: it remembers which tenants have nothing
// to give, so that no tenant is asked for ever. Lives on the stack of the request; one thread.
class TenantPressure {
 public:
  TenantPressure(Tenants& tenants, int device, TenantLedger::Slot requester)
      : tenants_(tenants), device_(device), requester_(requester) {}

  // True: one says that it has freed something, so that the request is worth another try. False:
  // none is left. pre: the thread holds no lock.
  bool ask_next(PressureReason reason, uint64_t missing);

 private:
  bool ask(const TenantLedger::Candidate& candidate, PressureReason reason, uint64_t missing);

  Pressure question_to(const TenantLedger::Candidate& candidate, PressureReason reason,
                       uint64_t missing) const;

  Tenants& tenants_;
  const int device_;
  const TenantLedger::Slot requester_;
  TenantLedger::Search search_;
};

}  // namespace cachalot
