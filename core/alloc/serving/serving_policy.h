// SPDX-License-Identifier: MIT OR Apache-2.0
// The serving policy: it needs less memory than the reference's (docs/policy.md). Each stream and size
// class has ranges of its own, whose pages come from the driver one by one and go from range to range
// where they are missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alloc/config/serving_options.h"
#include "alloc/native/cache_policy.h"
#include "alloc/native/device_state.h"
#include "alloc/serving/idle_pages.h"
#include "alloc/serving/loose_pages.h"
#include "alloc/serving/place.h"
#include "alloc/serving/soft_limit.h"
#include "alloc/serving/stream_order.h"
#include "alloc/serving/waiting_holes.h"

namespace cachalot {

// The options with a page size that the driver's devices have. Throws Error where the driver has no
// virtual memory, or not with this size.
ServingOptions resolve_page_size(ServingOptions options, Driver& driver);

// Owns the order of the streams.
class ServingPolicy final : public CachePolicy, private DeviceOperation {
 public:
  explicit ServingPolicy(DeviceState& device);

  Block* find_memory(AllocParams& params) override;
  // Private pools keep their memory, and within a capture no stream can wait for another.
  bool may_borrow(const AllocParams& params) const override;
  Outcome outcome(const AllocParams& params, uint64_t device_free) const override;
  void before_hand_out(const Block* found, Stream stream) override;
  void handed_out(Block* found, Block* used, Stream stream) override;
  Stream user_of(const Block* block) const override;
  bool has_user_ended(const Block* block) const override {
    return order_.user_of(block) == block->segment()->stream;
  }
  void freed(Block* block) override { order_.freed(block); }
  void merging(Block* block, Neighbours free) override;
  void finish_moves(bool may_wait) override;
  void before_unmap(Block* block) override { order_.synchronize_before_unmap(block); }
  void unmapped(uint64_t bytes) override { stats_.pages_released += bytes / page_size(); }
  void cache_emptied() override { soft_limit_.reset(); }
  void stream_ended(Stream stream) override;
  void destroy_events() override { order_.destroy_events(); }
  PolicyStats stats() const override;
  std::string check() const override;
  const StreamOrder& order() const { return order_; }

 private:
  Block* borrow_or_place(AllocParams& params);
  Block* smallest_of_others(const AllocParams& params) const;
  Block* borrow(AllocParams& params);
  Block* cut_front(Block* block, Address begin);
  // What a place may take: new pages only, or those of cached blocks as well.
  enum class Pages { kNew, kAny };
  Block* find_place(AllocParams& params, Pages from);
  std::optional<Place> search_or_reserve(AllocParams& params);
  PlaceSearch search_for(const AllocParams& params) const;
  bool may_reserve(const AllocParams& params) const;
  Block* take(const Place& place, Pages from, AllocParams& params);
  bool gather(const Place& place, Pages from, ContextId context, LoosePages* loose);
  bool wait_for_frees_and_holes(const AllocParams& params);
  bool wait_for_pending_frees(const AllocParams& params);
  bool wait_for_holes();
  void look_at_holes();

  // ---- Pages
  uint64_t page_size() const { return device_.settings.page_size(false); }
  uint64_t pages_below(uint64_t bytes) const;
  uint64_t idle_bytes(const std::optional<Place>& place) const;
  void create_beyond_soft_limit(PageTable& pages, uint64_t ready, uint64_t needed, uint64_t allowed,
                                SoftLimit* soft_limit, LoosePages* loose);
  // Both add pages, up to a total.
  void create(PageTable& pages, uint64_t total, LoosePages* loose);
  void take_idle(const std::vector<IdleRange>& ranges, bool can_tell, const Segment& keep,
                 ContextId context, LoosePages* loose);
  void take_range(const IdleRange& range, ContextId context, LoosePages* loose);
  void map(const Place& place, ContextId context, LoosePages* loose);
  void map_hole(Block* hole, ContextId context, LoosePages* loose);
  Block* cut_hole(Block* hole, Address begin, Address end);

  StreamOrder order_;
  WaitingHoles holes_;
  SoftLimit soft_limit_;
  PolicyStats stats_;  // but for the waits
};

}  // namespace cachalot
