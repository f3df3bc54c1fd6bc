// SPDX-License-Identifier: MIT OR Apache-2.0
// What the devices of one allocator share: where blocks live and are found, and what the reference
// keeps once a process (segment numbers, handle types, reserve classes, warnings given).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alloc/backend/allocator_options.h"
#include "alloc/config/options.h"
#include "alloc/config/rules.h"
#include "alloc/config/settings.h"
#include "alloc/heap/address_table.h"
#include "alloc/heap/block_arena.h"
#include "alloc/heap/handle_types.h"
#include "alloc/tenants/labels.h"
#include "alloc/tenants/tenants.h"
#include "alloc/trace/log.h"
#include "base/mutex.h"

namespace cachalot {

class SharedState {
 public:
  explicit SharedState(const AllocatorOptions& options);

  // R33 is said once, R34 each time.
  void warn_of_options(const std::string& text);
  WarningSink option_warnings() {
    return [this](const std::string& text) { warn_of_options(text); };
  }
  // Warns once where the options in force harm each other (U22). pre: settings_lock.
  void advise_of(const Settings& changed);

  // What the address table names for an address; its device checks the guess. Null: no block was
  // ever there.
  [[gnu::always_inline]] BlockArena::Located find(Address address) const {
    const uint32_t number = addresses.find(address);
    if (number == 0) [[unlikely]]
      return {nullptr, nullptr};
    return arena.locate(number);
  }

  std::string reserve_class(Stream stream);
  void set_reserve_class(Stream stream, const std::string& name);

  Driver& driver;
  const Rules rules;
  const bool track_labels;
  const bool check_every_call;
  const bool looks_in_stream_order;
  const ContextSource contexts;
  Log log;
  BlockArena arena;
  AddressTable addresses;
  HandleTypes handle_types;
  Labels labels;
  const std::shared_ptr<Tenants> tenants;  // also held by their handles
  std::atomic<int64_t> next_segment_number{0};

  // The settings that configure() changes; each device works with a copy.
  Mutex settings_lock{LockRank::kSettings};
  Settings settings;

  const DebugOptions debug;

 private:
  mutable Mutex lock_{LockRank::kSharedState};
  bool has_advised_ = false;
  std::map<Stream, std::string> reserve_classes_;
};

// R65, R67: what a class gets on a device of so many bytes.
ReserveDecision decide_reserve(const Settings& settings, const std::string& name, uint64_t total);

}  // namespace cachalot
