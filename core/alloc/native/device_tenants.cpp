// SPDX-License-Identifier: MIT OR Apache-2.0
// Tenants on a device: what a request is granted, and whose a block is (cachalot/tenant.h).
#include "alloc/native/hold.h"
#include "alloc/tenants/tenant_scope.h"
#include "base/text.h"

namespace cachalot {

// What is live has been handed out without a look at tenants, so it is the default tenant's.
void DeviceAllocator::start_tenants() {
  if (has(kTenants)) return;  // they never stop
  const Hold hold(*this);
  if (has(kTenants)) return;
  update_capacity();
  TenantUse so_far;
  for (const auto& [address, segment] : heap_.segments()) {
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (b->is(Block::kUsed)) so_far.add_block(b->size, b->requested);
    }
  }
  tenants().begin(so_far);
  flags_.put(kTenants, true);
  tenants().set_limit(limit_);
}

void DeviceAllocator::update_capacity() {
  tenants().set_physical(device_memory().available + stats_.reserved());
}

// [tenant 1 to 3] The device is unlocked while tenants are asked.
TenantBooking DeviceAllocator::admit(const Request& request, AllocParams& params, Hold& hold) {
  if (!has(kTenants)) [[likely]]
    return {};
  params.owner.tenant = request.tenant != 0 ? request.tenant : owners_.tenant_of_thread();
  std::optional<TenantRefusal> refusal = tenants().book(params.owner.tenant, params.size);
  if (refusal && !refusal->by_limit) {
    update_capacity();
    refusal = tenants().book(params.owner.tenant, params.size);
  }
  TenantPressure pressure(*shared_.tenants, device_, params.owner.tenant);
  while (refusal) {
    bool freed = false;
    {
      const Unlocked unlocked(hold, *params.entry, params.pool->owner);
      freed =
          pressure.ask_next(refusal->by_limit ? PressureReason::kLimit : PressureReason::kGuarantee,
                            refusal->missing);
    }
    if (!freed) refuse(params, *refusal, hold);
    refusal = tenants().book(params.owner.tenant, params.size);
  }
  return {&tenants(), params.owner.tenant, params.size};
}

void DeviceAllocator::refuse(AllocParams& params, const TenantRefusal& refusal, Hold& hold) {
  params.segment_size = segment_size_for(params.size);
  tenants().count_refusal(params.owner.tenant);
  throw_out_of_memory(
      params, out_of_memory_numbers(params),
      shared_.tenants->refusal_text(params.owner.tenant, device_, params.size, refusal), hold);
}

}  // namespace cachalot
