// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/admission.h"

#include <utility>

#include "alloc/native/block_cache.h"
#include "alloc/native/failed_request.h"
#include "alloc/native/segment_limits.h"
#include "alloc/tenants/tenant_pressure.h"
#include "alloc/tenants/tenant_scope.h"

namespace cachalot {
namespace {

// Memory that other processes took or gave back since the last look changes what can be granted.
void update_capacity(DeviceState& device) {
  const uint64_t available = SegmentLimits(device).device_memory().available;
  device.owners.tenants().set_physical(available + device.stats.reserved());
}

}  // namespace

// [tenant 1 to 3] The device is unlocked while tenants are asked.
TenantBooking Admission::admit(const Request& request) {
  if (!has(kTenants)) [[likely]]
    return {};
  params_.owner.tenant = request.tenant != 0 ? request.tenant : device_.owners.tenant_of_thread();
  std::optional<TenantRefusal> refusal =
      device_.owners.tenants().book(params_.owner.tenant, params_.size);
  // The driver is asked only where its answer can help: a tenant's own limit does not depend on it.
  if (refusal && !refusal->by_limit) {
    update_capacity(device_);
    refusal = device_.owners.tenants().book(params_.owner.tenant, params_.size);
  }
  TenantPressure pressure(*device_.shared.tenants, device_.index, params_.owner.tenant);
  // Each turn asks one tenant more, or one that has just given, so it ends.
  while (refusal) {
    bool freed = false;
    {
      const DeviceUnlock unlocked(lock_, *params_.entry, params_.pool->owner);
      freed =
          pressure.ask_next(refusal->by_limit ? PressureReason::kLimit : PressureReason::kGuarantee,
                            refusal->missing);
    }
    if (!freed) refuse(*refusal);
    refusal = device_.owners.tenants().book(params_.owner.tenant, params_.size);
  }
  return {&device_.owners.tenants(), params_.owner.tenant, params_.size};
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
  device.owners.tenants().begin(so_far);
  device.flags.put(SlowPath::kTenants, true);
  // From here on set_limit() of the device tells the ledger.
  device.owners.tenants().set_limit(device.settings.limit());
}

}  // namespace cachalot
