// SPDX-License-Identifier: MIT OR Apache-2.0
// The serving policy: it needs less memory than the reference's (docs/policy.md). Each stream and size
// class has ranges of its own, whose pages come from the driver one by one and go from range to range
// where they are missing.
//
// Note [Stamps]
// Rationale: a page may leave a cached block once the work is done that used it. So it must be known
// whether the host has waited for that work, and which pages have been idle for longest.
// Approach: a clock ticks with each request that no hit serves. A free stamps its block with the clock;
// a merge keeps the later stamp, which is the one of the free that merges. The host notes the clock when it
// waits for a stream: work of blocks with an earlier stamp, or the same, is done.
// A free block has no requested size in this policy, so the stamp lies in `requested`, which a hit writes
// anyway.
// Invariants: the clock changes with the whole device held only, so frees that are put off (Note [Last
// free]) have the stamp of their moment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "alloc/native/cache_policy.h"
#include "alloc/native/device_state.h"
#include "alloc/serving/idle_pages.h"
#include "alloc/serving/loose_pages.h"
#include "alloc/serving/place.h"

namespace cachalot {

// Owns what the host has waited for. pre of all functions: the whole device.
class ServingPolicy final : public CachePolicy, private DeviceOperation {
 public:
  // Throws Error where the driver lacks virtual memory or has larger pages.
  explicit ServingPolicy(DeviceState& device);

  Block* find_memory(AllocParams& params) override;

 private:
  Block* find_place(AllocParams& params);
  std::optional<Place> search_or_reserve(AllocParams& params);
  Block* take(const Place& place, AllocParams& params);
  bool wait_for_pending_frees(const AllocParams& params);

  // ---- Pages
  uint64_t page_size() const { return device_.settings.page_size(false); }
  uint64_t pages_within_limit() const;
  // Both add pages, up to a total.
  void create(PageTable& pages, uint64_t total, LoosePages* loose);
  void take_idle(const IdlePages& idle, uint64_t total, ContextId context, LoosePages* loose);
  void wait_for(const std::vector<IdleRange>& ranges);
  void map(const Place& place, ContextId context, LoosePages* loose);
  Block* cut_hole(Block* hole, Address begin, Address end);

  std::map<Stream, uint64_t> waited_;  // the clock when the host waited for the stream
};

}  // namespace cachalot
