// SPDX-License-Identifier: MIT OR Apache-2.0
// The state that the devices of one allocator share: the memory of block objects, the table that finds
// them, and the state that the reference keeps once a process (segment numbers, handle types, reserve
// classes, warnings given).
#pragma once

#include <atomic>
#include <memory>

#include "alloc/backend/allocator_options.h"
#include "alloc/backend/reserve_classes.h"
#include "alloc/backend/shared_settings.h"
#include "alloc/config/rules.h"
#include "alloc/heap/address_table.h"
#include "alloc/heap/block_arena.h"
#include "alloc/heap/handle_types.h"
#include "alloc/tenants/labels.h"
#include "alloc/tenants/tenants.h"
#include "alloc/trace/log.h"

namespace cachalot {

// Owned by the Allocator, made before its backend and destroyed after it. Members that change have
// locks of their own; the others are constant, so any thread may read them.
class SharedState {
 public:
  explicit SharedState(const AllocatorOptions& options);

  // The block that the address table names for an address: a guess, which its device checks. Null:
  // no block was ever there.
  [[gnu::always_inline]] BlockArena::Located find(Address address) const {
    const uint32_t number = addresses.find(address);
    if (number == 0) [[unlikely]]
      return {nullptr, nullptr};
    return arena.locate(number);
  }

  Driver& driver;
  const Rules rules;
  const bool track_labels;
  // See PendingFrees.
  const bool looks_in_stream_order;
  // Called without a lock (contexts.h).
  const ContextSource contexts;
  Log log;
  SharedSettings settings;
  ReserveClasses reserve_classes;
  BlockArena arena;
  AddressTable addresses;
  HandleTypes handle_types;
  Labels labels;
  const std::shared_ptr<Tenants> tenants;  // also held by their handles
  // In the order in which segments were obtained, over all devices (R2).
  std::atomic<int64_t> next_segment_number{0};

  const DebugOptions debug;
  const ServingOptions serving;
};

}  // namespace cachalot
