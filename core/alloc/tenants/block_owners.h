// SPDX-License-Identifier: MIT OR Apache-2.0
// The owners of the blocks of a device: the label and the tenant that each block counts for.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "alloc/heap/block.h"
#include "alloc/heap/segment_heap.h"
#include "alloc/sync/slow_path_flags.h"
#include "alloc/tenants/labels.h"
#include "alloc/tenants/tenants.h"

namespace cachalot {

// Owns the device's rows of labels; the tenants' ledger belongs to Tenants. Which of both is counted
// depends on the device's flags, because a device without labels and tenants pays nothing.
// Invariants: a live block counts in the row of the label and in that of the tenant that it notes;
// a block whose free waits keeps its label pinned but counts no longer.
// pre of all functions but tenants(): the device's lock.
class BlockOwners : private SlowPath {
 public:
  // The label and the tenant of an allocation, looked up once before the search for a block.
  struct Owner {
    Labels::Slot label = Labels::kNone;
    TenantLedger::Slot tenant = 0;
  };

  BlockOwners(Labels& labels, const std::shared_ptr<Tenants>& tenants, int device,
              const SlowPathFlags& flags)
      : labels_(labels), rows_(labels), tenants_(*tenants), device_(device), flags_(flags) {}

  // pre: the device's lock.
  LabelRows& labels() { return rows_; }
  TenantLedger& tenants() { return tenants_.ledger(device_); }

  // Of the calling thread, while these flags are set. The label stays pinned until another one is used.
  // Throws std::bad_alloc.
  Owner of_thread(uint32_t flags);
  // 0 if the thread has begun no tenant of this allocator.
  TenantLedger::Slot tenant_of_thread() const;
  // The same label, pinned for as long as the request lasts, which may let the device go.
  LabelPin pin_label();

  // An allocation, and the caller's free, while these flags are set; neither can fail. The block keeps
  // its label until release_label(), when its free completes.
  void take(Block* block, const Owner& owner, uint32_t flags);
  void take_label(Block* block, Labels::Slot label, uint32_t flags) {
    block->detail().label = label;
    if (label == Labels::kNone) return;
    rows_.keep(label);
    if (flags & kLabels) rows_.count(label, static_cast<int64_t>(block->size));
  }
  void give_up(Block* block, uint32_t flags) {
    const Labels::Slot label = block->detail().label;
    if ((flags & kLabels) && label != Labels::kNone)
      rows_.uncount(label, static_cast<int64_t>(block->size));
    if (flags & kTenants)
      tenants().uncount(std::exchange(block->detail().tenant, 0), block->size, block->requested);
  }
  void release_label(Block* block) {
    rows_.release(std::exchange(block->detail().label, Labels::kNone));
  }

  // A block that sleeps counts for nothing, but keeps its label, and its tenant cannot end. Neither can
  // fail. pre: the owner is that of a live block.
  void fall_asleep(const Owner& owner, uint64_t bytes, uint32_t flags) {
    rows_.keep(owner.label);
    if (flags & kTenants) tenants().fall_asleep(owner.tenant, bytes);
  }
  void forget_asleep(const Owner& owner, uint64_t bytes, uint32_t flags) {
    rows_.release(owner.label);
    if (flags & kTenants) tenants().forget_asleep(owner.tenant, bytes);
  }

  // The auditor: empty, or what is wrong.
  // Compares the ledger with the sums over all live blocks.
  std::string check_tenants(const SegmentHeap& heap);
  void reset_peaks();
  void reset_accumulated();

 private:
  Labels& labels_;
  LabelRows rows_;
  Tenants& tenants_;
  const int device_;
  const SlowPathFlags& flags_;
};

}  // namespace cachalot
