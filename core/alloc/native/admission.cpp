// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/admission.h"

#include "alloc/native/block_cache.h"
#include "alloc/native/failed_request.h"
#include "alloc/native/segment_limits.h"
#include "alloc/tenants/tenant_scope.h"

namespace cachalot {

void update_capacity(DeviceState& device) {
  const uint64_t available = SegmentLimits(device).device_memory().available;
  device.owners.tenants().set_physical(available + device.stats.reserved());
}

TenantBooking Admission::admit(const Request& request) {
  if (!has(kTenants)) [[likely]]
    return {};
  const TenantLedger::Slot slot =
      request.tenant != 0 ? request.tenant : device_.owners.tenant_of_thread();
  params_.owner.tenant = slot;
  TenantLedger& ledger = device_.owners.tenants();
  TenantPressure pressure(*device_.shared.tenants, device_.index, slot);
  const auto refusal = book_or_ask(
      ledger, slot, params_.size, [&] { update_capacity(device_); },
      [&](PressureReason reason, uint64_t missing) {
        const DeviceUnlock unlocked(lock_, *params_.entry, params_.pool->owner);
        return pressure.ask_next(reason, missing);
      });
  if (refusal) refuse(*refusal);
  return {&ledger, slot, params_.size};
}

void Admission::refuse(const TenantRefusal& refusal) {
  params_.segment_size = BlockCache(device_).segment_size_for(params_);
  device_.owners.tenants().count_refusal(params_.owner.tenant);
  FailedRequest(device_, params_, lock_)
      .throw_refused(device_.shared.tenants->refusal_text(params_.owner.tenant, device_.index,
                                                          params_.size, refusal));
}

// What is live has been handed out without a look at tenants, so it is the default tenant's.
void start_tenants(DeviceState& device) {
  update_capacity(device);
  TenantUse so_far;
  device.heap.for_each_block([&](const Block* b) {
    if (b->is(Block::kUsed)) so_far.add_block(b->size, b->requested);
  });
  for (const auto& [id, pool] : device.pools.all())
    if (pool->sleep) so_far.asleep_bytes += pool->sleep->allocated_bytes();
  device.owners.tenants().begin(so_far);
  device.flags.put(SlowPath::kTenants, true);
  // From here on set_limit() of the device tells the ledger.
  device.owners.tenants().set_limit(device.settings.limit());
}

}  // namespace cachalot
