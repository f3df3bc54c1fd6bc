// SPDX-License-Identifier: MIT OR Apache-2.0
// Tenants on a device: what a request is granted, and whose a block is (cachalot/tenant.h).
#include "alloc/native/hold.h"
#include "alloc/tenants/tenant_scope.h"
#include "base/text.h"

namespace cachalot {

namespace {

TenantUse& operator+=(TenantUse& sum, const Block& block) {
  sum.allocation.increase(1);
  sum.allocated_bytes.increase(static_cast<int64_t>(block.size));
  sum.requested_bytes.increase(static_cast<int64_t>(block.requested));
  return sum;
}

}  // namespace

// What is live has been handed out without a look at tenants, so it is the default tenant's.
void DeviceAllocator::start_tenants() {
  if (has(kTenants)) return;  // they never stop
  const Hold hold(*this);
  if (has(kTenants)) return;
  update_capacity();
  TenantUse so_far;
  for (const auto& [address, segment] : heap_.segments()) {
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (b->is(Block::kUsed)) so_far += *b;
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
  params.tenant = request.tenant != 0 ? request.tenant : current_tenant(*shared_.tenants);
  std::optional<TenantRefusal> refusal = tenants().book(params.tenant, params.size);
  if (refusal && !refusal->by_limit) {
    update_capacity();
    refusal = tenants().book(params.tenant, params.size);
  }
  TenantPressure pressure(*shared_.tenants, device_, params.tenant);
  while (refusal) {
    bool freed = false;
    {
      const Unlocked unlocked(hold, *params.entry, params.pool->owner);
      freed =
          pressure.ask_next(refusal->by_limit ? PressureReason::kLimit : PressureReason::kGuarantee,
                            refusal->missing);
    }
    if (!freed) refuse(params, *refusal, hold);
    refusal = tenants().book(params.tenant, params.size);
  }
  return {&tenants(), params.tenant, params.size};
}

void DeviceAllocator::refuse(AllocParams& params, const TenantRefusal& refusal, Hold& hold) {
  params.segment_size = segment_size_for(params.size);
  tenants().count_refusal(params.tenant);
  throw_out_of_memory(params, out_of_memory_numbers(params),
                      shared_.tenants->refusal_text(params.tenant, device_, params.size, refusal),
                      hold);
}

void DeviceAllocator::count_tenant(Block* block, TenantLedger::Slot tenant) {
  block->detail().tenant = tenant;
  tenants().count(tenant, block->size, block->requested);
}

void DeviceAllocator::uncount_tenant(Block* block) {
  tenants().uncount(std::exchange(block->detail().tenant, 0), block->size, block->requested);
}

std::string DeviceAllocator::check_tenants() {
  if (!has(kTenants)) return "";
  std::map<TenantLedger::Slot, TenantUse> sums;
  for (const auto& [address, segment] : heap_.segments()) {
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (b->is(Block::kUsed)) sums[b->detail().tenant] += *b;
    }
  }
  for (const auto& [slot, use] : tenants().uses()) {
    const TenantUse& sum = sums[slot];
    if (use.allocation.current != sum.allocation.current ||
        use.allocated_bytes.current != sum.allocated_bytes.current ||
        use.requested_bytes.current != sum.requested_bytes.current) {
      return format(
          "tenant slot %u has %lld blocks of %lld bytes where the blocks say %lld of %lld", slot,
          static_cast<long long>(use.allocation.current),
          static_cast<long long>(use.allocated_bytes.current),
          static_cast<long long>(sum.allocation.current),
          static_cast<long long>(sum.allocated_bytes.current));
    }
    sums.erase(slot);
  }
  return sums.empty() ? "" : "a block is that of a tenant which does not exist";
}

}  // namespace cachalot
