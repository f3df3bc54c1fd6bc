// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/tenants/tenant_pressure.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "alloc/tenants/tenant_scope.h"
#include "base/lock_rank.h"

namespace cachalot {

namespace {

// An exception of the caller's is no answer of ours.
uint64_t answer_of(const Tenant& tenant, const Pressure& pressure) noexcept {
  if (!tenant.pressure) return 0;
  try {
    const AskingTenant asking(tenant);
    return tenant.pressure(pressure);
  } catch (...) {
    return 0;
  }
}

// Puts the first of the tenant's pools to sleep that can. A pool that cannot has its reason, and the next one
// is tried.
uint64_t put_to_sleep(const Tenant& tenant,
                      const std::vector<Tenants::FallAsleep>& sleeps) noexcept {
  const AskingTenant asking(tenant);
  for (const Tenants::FallAsleep& fall_asleep : sleeps) {
    try {
      if (const uint64_t bytes = fall_asleep()) return bytes;
    } catch (...) {
    }
  }
  return 0;
}

}  // namespace

bool TenantPressure::ask_next(PressureReason reason, uint64_t missing) {
  CACHALOT_ASSERT(1, holds_no_lock() && missing > 0);
  // A request from within a callback could ask the same tenant again, without end.
  if (is_asking_a_tenant()) return false;
  TenantLedger& ledger = tenants_.ledger(device_);
  const bool only_itself = reason == PressureReason::kLimit;
  while (const auto candidate = ledger.next_to_ask(requester_, only_itself, search_)) {
    if (ask(*candidate, reason, missing)) return true;
  }
  return false;
}

bool TenantPressure::ask(const TenantLedger::Candidate& candidate, PressureReason reason,
                         uint64_t missing) {
  CACHALOT_ASSERT(1, candidate.id != 0 && !search_.done.contains(candidate.id));
  search_.done.insert(candidate.id);  // until it is seen to give
  const std::shared_ptr<Tenant> tenant = tenants_.find(candidate.id);
  // It ended after the search; its memory is back already.
  if (!tenant) return false;
  TenantLedger& ledger = tenants_.ledger(device_);
  uint64_t answer = put_to_sleep(*tenant, tenants_.sleeps_of(candidate.id, device_));
  if (answer == 0) answer = answer_of(*tenant, question_to(candidate, reason, missing));
  const uint64_t freed = ledger.end_pressure(candidate.slot, candidate.id, candidate.has);
  // It may have more to give. One that claims to have freed and has not would otherwise be asked
  // for ever.
  if (answer != 0 && freed != 0) search_.done.erase(candidate.id);
  return answer != 0;
}

// As it is now: the requester may have another priority by now.
Pressure TenantPressure::question_to(const TenantLedger::Candidate& candidate,
                                     PressureReason reason, uint64_t missing) const {
  auto [id, name] = tenants_.id_and_name(requester_);
  return {.reason = reason,
          .device = device_,
          .missing = missing,
          .allocated = candidate.has,
          .guaranteed = candidate.guaranteed,
          .requester = id,
          .requester_name = std::move(name),
          .requester_priority = tenants_.ledger(device_).terms(requester_).priority,
          .is_request_guaranteed = candidate.is_request_guaranteed};
}

}  // namespace cachalot
