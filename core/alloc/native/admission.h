// SPDX-License-Identifier: MIT OR Apache-2.0
// What a tenant's request is granted (cachalot/tenant.h).
#pragma once

#include <optional>
#include <utility>

#include "alloc/heap/request.h"
#include "alloc/native/alloc_params.h"
#include "alloc/native/device_state.h"
#include "alloc/shards/device_lock.h"
#include "alloc/tenants/tenant_ledger.h"
#include "alloc/tenants/tenant_pressure.h"

namespace cachalot {

class Admission : private DeviceOperation {
 public:
  // The lock has the shard of the request, or the whole device.
  Admission(DeviceState& device, AllocParams& params, DeviceLock& lock)
      : DeviceOperation(device), params_(params), lock_(lock) {}

  // Books the bytes for the tenant of the request [tenant 1 to 3]. Other tenants are asked to free
  // where they are missing; the device is unlocked meanwhile. Throws where they stay missing.
  TenantBooking admit(const Request& request);

 private:
  [[noreturn]] void refuse(const TenantRefusal& refusal);

  AllocParams& params_;
  DeviceLock& lock_;
};

// Memory that other processes took or gave back since the last look changes what can be granted. pre: the device's
// lock.
void update_capacity(DeviceState& device);

// Books the bytes for a tenant [tenant 1 to 3]. Where they are missing, tenants are asked to free, one after the
// other. Gives the refusal that is left. Callers differ in the locks that they hold, so they do what needs one or none:
//   update()                   update_capacity()
//   ask_next(reason, missing)  TenantPressure::ask_next()
template <class Update, class AskNext>
std::optional<TenantRefusal> book_or_ask(TenantLedger& ledger, TenantLedger::Slot slot,
                                         uint64_t bytes, Update update, AskNext ask_next) {
  bool is_up_to_date = false;
  // Each turn asks one tenant more, or one that has just given, so it ends.
  while (const auto refusal = ledger.book(slot, bytes)) {
    // The driver is asked only where its answer can help: a tenant's own limit does not depend on it.
    if (!refusal->by_limit && !std::exchange(is_up_to_date, true)) {
      update();
      continue;
    }
    const auto reason = refusal->by_limit ? PressureReason::kLimit : PressureReason::kGuarantee;
    if (!ask_next(reason, refusal->missing)) return refusal;
  }
  return {};
}

// The device counts what its tenants have from now on. pre: the whole device, which has no tenants yet.
void start_tenants(DeviceState& device);

}  // namespace cachalot
