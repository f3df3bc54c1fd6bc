// SPDX-License-Identifier: MIT OR Apache-2.0
// The settings and the limit of one device, and what they make of a size.
#pragma once

#include <cstdint>

#include "alloc/config/constants.h"
#include "alloc/config/rules.h"
#include "alloc/config/serving_options.h"
#include "alloc/config/settings.h"
#include "alloc/shards/hit_rules.h"
#include "alloc/sync/slow_path_flags.h"

namespace cachalot {

// Invariants: kRounding, kAging and the rules of hits follow from the settings and the limit.
// pre: the whole device to change something, else a shard.
class DeviceSettings : private SlowPath {
 public:
  DeviceSettings(Settings settings, const Rules& rules, SlowPathFlags& flags,
                 const ServingOptions& serving = {});

  const HitRules& hit_rules() const { return hit_rules_; }
  const Settings& settings() const { return settings_; }
  uint64_t limit() const { return limit_; }  // L; kUnlimited: none

  // Gives the former settings back, so that the caller destroys them without a lock.
  void swap(Settings& settings);
  void set_limit(uint64_t bytes);
  // What a fraction of the device allows (R25).
  uint64_t limit_of(double fraction, uint64_t total) const;

  // ---- Sizes
  // S: what a request of n bytes takes of a block [core 4].
  uint64_t round_size(uint64_t n) const;
  // A: what the driver is asked for [core 5.2].
  uint64_t segment_size_for(uint64_t size) const;
  // Of an expandable segment.
  uint64_t page_size(bool is_small) const {
    if (serving_.page_bytes != 0) return serving_.page_bytes;
    return is_small ? kSmallSegment : settings_.large_segment_size;
  }
  // How much a block of this size adds to the count of oversize blocks.
  int64_t oversize_of(uint64_t size) const { return hit_rules_.is_oversize(size) ? 1 : 0; }

  // ---- The serving policy
  const ServingOptions& serving() const { return serving_; }
  // The time of Note [Stamps].
  uint64_t clock() const { return hit_rules_.clock; }
  void tick() { hit_rules_.clock++; }

 private:
  void changed();
  void leave_to_policy();

  HitRules hit_rules_;
  SlowPathFlags& flags_;
  const Rules& rules_;
  const ServingOptions serving_;
  uint64_t limit_ = kUnlimited;
  Settings settings_;
};

}  // namespace cachalot
