// SPDX-License-Identifier: MIT OR Apache-2.0
// What the devices of one allocator share: where blocks live and are found, and what the reference
// keeps once a process (segment numbers, handle types, reserve classes, warnings given).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/address_table.h"
#include "alloc/allocator_options.h"
#include "alloc/block_arena.h"
#include "alloc/labels.h"
#include "alloc/options.h"
#include "alloc/rules.h"
#include "alloc/settings.h"
#include "alloc/tenants.h"
#include "base/mutex.h"

namespace cachalot {

// Which handle type pages are created with.
class HandleTypes {
 public:
  HandleTypes(Driver& driver, const Rules& rules, bool shareable, LogSink log)
      : driver_(driver), rules_(rules), shareable_(shareable), log_(std::move(log)) {}

  enum class Probed { kUndecided, kPosixFd, kFabric };

  bool are_by_trial() const { return rules_.fabric_by_trial; }
  // What to ask of the driver; none where pages are not to be shared.
  HandleType requested(HandleType type) const { return shareable_ ? type : HandleType::kNone; }
  // R60: fabric iff the device has it, found out once.
  HandleType for_device(int device);
  // 7.2: the first answer of a page creation decides for all.
  Probed probed();
  void settle(Probed type);  // pre: it is decided

 private:
  bool is_part_of_fabric(int device);
  bool try_fabric(int device);

  Driver& driver_;
  Rules rules_;
  bool shareable_;
  LogSink log_;
  Mutex lock_{LockRank::kHandleTypes};
  bool has_warned_ = false;
  Probed probed_ = Probed::kUndecided;
  std::map<int, bool> has_fabric_;
};

class SharedState {
 public:
  explicit SharedState(const AllocatorOptions& options);

  void warn(const std::string& text) const;
  void warn_once(const std::string& key, const std::string& text);
  // R33 is said once, R34 each time.
  void warn_of_options(const std::string& text);
  WarningSink option_warnings() {
    return [this](const std::string& text) { warn_of_options(text); };
  }
  // The options in force together do what nobody wants (U22): said once. pre: settings_lock.
  void advise_of(const Settings& changed);
  // A mended defect of the reference has just changed a decision.
  void differ(const char* defect, std::string_view text) const;
  bool tells_differences() const { return log_ != nullptr; }
  // Memory was written where it must not be.
  void report_damage(const std::string& text) const;

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
  LogSink log_;
  mutable Mutex lock_{LockRank::kSharedState};
  std::set<std::string> warned_;
  bool has_advised_ = false;
  std::map<Stream, std::string> reserve_classes_;
};

// R65, R67: what a class gets on a device of so many bytes.
ReserveDecision decide_reserve(const Settings& settings, const std::string& name, uint64_t total);

}  // namespace cachalot
