// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/tenants/block_owners.h"

#include <map>
#include <utility>

#include "alloc/tenants/tenant_scope.h"
#include "alloc/trace/contexts.h"
#include "base/text.h"

namespace cachalot {

BlockOwners::Owner BlockOwners::of_thread(uint32_t flags) {
  Owner owner;
  if (flags & kLabels) owner.label = rows_.use(current_labels());
  if (flags & kTenants) owner.tenant = tenant_of_thread();
  return owner;
}

TenantLedger::Slot BlockOwners::tenant_of_thread() const { return current_tenant(tenants_); }

LabelPin BlockOwners::pin_label() {
  // A watched device needs labels as well: a report of damage names the label of the block.
  if (!flags_.has(kLabels | kWatched)) [[likely]]
    return {};
  return {&labels_, rows_.use(current_labels())};
}

// The block counts with its own size, which is at least what was asked for.
void BlockOwners::take(Block* block, const Owner& owner, uint32_t flags) {
  if (flags & (kLabels | kWatched)) take_label(block, owner.label, flags);
  if (!(flags & kTenants)) return;
  block->detail().tenant = owner.tenant;
  tenants().count(owner.tenant, block->size, block->requested);
}

void BlockOwners::reset_peaks() {
  rows_.reset_peaks();
  if (flags_.has(kTenants)) tenants().reset_peaks();
}

void BlockOwners::reset_accumulated() {
  rows_.reset_accumulated();
  if (flags_.has(kTenants)) tenants().reset_accumulated();
}

std::string BlockOwners::check_tenants(const SegmentHeap& heap) {
  if (!flags_.has(kTenants)) return "";
  std::map<TenantLedger::Slot, TenantUse> sums;
  for (const auto& [address, segment] : heap.segments()) {
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (b->is(Block::kUsed)) sums[b->detail().tenant].add_block(b->size, b->requested);
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
