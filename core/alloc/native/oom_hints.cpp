// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/oom_hints.h"

#include <algorithm>

#include "base/text.h"

namespace cachalot {

// In a fixed order, so that two failures in the same state have the same line.
std::string OomHints::line() {
  std::string text = "cachalot: " + largest_free_block();
  for (const std::string& remedy :
       {without_limit(), without_oversize_rule(), without_rounding(), without_rejection(),
        with_larger_reserve(), with_expandable_segments()}) {
    if (!remedy.empty()) text += "; " + remedy;
  }
  return text + ".";
}

// Of any pool and stream, then of the request's own: the request cannot use the rest.
std::string OomHints::largest_free_block() const {
  const StreamFreeList* own = params_.list();
  const Block* usable = own ? own->free.last() : nullptr;
  uint64_t largest = 0;
  device_.for_each_list([&](const StreamFreeList& list) {
    if (const Block* block = list.free.last()) largest = std::max(largest, block->size);
  });
  if (largest == 0) return "there is no free block";
  std::string text = "the largest free block is " + format_size(largest);
  if (!usable) return text + ", and there is none of this request's pool and stream";
  if (usable->size == largest) return text;
  return text + ", of this request's pool and stream " + format_size(usable->size);
}

// ---- What the state says

// The most that the request asks the driver for.
uint64_t OomHints::bytes_to_obtain(const AllocParams& params) const {
  if (!params.expandable) return params.segment_size;
  return round_up(params.size, device_.settings.page_size(params.pool->is_small));
}

// Whether the driver has enough and no limit refuses.
bool OomHints::has_room(const AllocParams& params) const {
  return !has_own_source() && !limits_.is_over_limit(params) && !limits_.is_rejected(params) &&
         bytes_to_obtain(params) <= device_free_;
}

// R66.
bool OomHints::is_reserve_too_small() const {
  return params_.expandable && would_reserve_be_too_small();
}

bool OomHints::would_reserve_be_too_small() const {
  if (!rules().has_reserves || rules().mend_reserve) return false;
  const std::string name = device_.shared.reserve_classes.of(params_.stream);
  const uint64_t bytes = decide_reserve(settings(), name, device_total_).segment_bytes;
  const uint64_t page = device_.settings.page_size(params_.pool->is_small);
  return PageTable::pages_for(bytes, page) < PageTable::pages_for(params_.size, page);
}

// The least that a release of the whole cache gives back: it does not count frees that wait.
uint64_t OomHints::releasable_bytes_of_all() const {
  uint64_t bytes = 0;
  for (const bool is_small : {false, true})
    bytes += device_.heap.releasable_bytes(device_.heap.default_pool(is_small));
  for (const auto& [id, pool] : device_.pools.all()) {
    if (pool->keeps_memory()) continue;
    for (const bool is_small : {false, true})
      bytes += device_.heap.releasable_bytes(pool->of_kind(is_small));
  }
  return bytes;
}

// What a plain segment would give back if it had been made of pages, at least: each run of blocks
// in use would hold all pages that it can touch, wherever it lay. Less than 0: it would hold more.
int64_t OomHints::gain_from_pages(const Segment& segment) const {
  const BlockPool& pool = *segment.pool;
  if (segment.is_expandable() || has_whole_blocks(pool)) return 0;
  const uint64_t page = device_.settings.page_size(pool.is_small);
  const bool may_free = !pool.owner || !pool.owner->keeps_memory();
  uint64_t held = 0;
  uint64_t run = 0;
  for (const Block* b = segment.first();; b = b->next) {
    const bool is_end = b == &segment.ends;
    if (!is_end && !(may_free && b->is_free())) {
      run += b->size;
      continue;
    }
    if (run > 0) held += round_up(run + page - kMinBlockSize, page);
    run = 0;
    if (is_end) break;
  }
  return static_cast<int64_t>(segment.size) - static_cast<int64_t>(held);
}

// ---- The remedies

// The free memory of the device decides: a higher limit alone makes no memory.
std::string OomHints::without_limit() const {
  const bool is_over = limits_.is_over_limit(params_);
  const bool is_rejected = limits_.is_rejected(params_);
  if (!is_over && !is_rejected) return "";
  if (has_own_source() || is_reserve_too_small() || bytes_to_obtain(params_) > device_free_)
    return "";
  const double fraction = settings().per_process_memory_fraction;
  const std::string room =
      "would have made room: " + format_size(device_free_) + " is free on the device";
  const bool is_of_option =
      fraction < 1 && (!is_over || limit() == device_.settings.limit_of(fraction, device_total_));
  if (is_of_option)
    return format("CACHALOT_ALLOC_CONF without per_process_memory_fraction:%g ", fraction) + room;
  if (is_rejected) return "";
  return "no limit of " + format_size(limit()) +
         " (cachalot_set_memory_fraction, cachalot_set_memory_limit) " + room;
}

// [core 6.6]
std::string OomHints::without_oversize_rule() const {
  const Block* block = cache_.best_fit(params_);
  if (!block || block->is(Block::kWhole) || !cache_.is_oversize_mismatch(params_, block)) return "";
  return "CACHALOT_ALLOC_CONF without max_split_size_mb would have used the free block of " +
         format_size(block->size);
}

// Follows the request with its exact size: another pool or another segment size may serve it.
std::string OomHints::without_rounding() {
  AllocParams exact = params_;
  exact.size = round_up(params_.requested, kMinBlockSize);
  if (exact.size >= params_.size) return "";
  const bool is_small = exact.size <= kSmallSize;
  exact.pool = params_.pool->owner ? &params_.pool->owner->of_kind(is_small)
                                   : &device_.heap.default_pool(is_small);
  exact.segment_size = cache_.segment_size_for(exact);
  const Block* block = cache_.best_fit(exact);
  const bool is_cached = block && !cache_.is_oversize_mismatch(exact, block);
  if (!is_cached && !(has_room(exact) && !is_reserve_too_small())) return "";
  return "CACHALOT_ALLOC_CONF without roundup_power2_divisions would have made room: " +
         format_size(exact.size) + " was rounded up to " + format_size(params_.size);
}

// R31.
std::string OomHints::without_rejection() const {
  if (!params_.rejected || device_.captures.may_be_under_way() || has_own_source() ||
      is_reserve_too_small())
    return "";
  const uint64_t released = releasable_bytes_of_all();
  const uint64_t reserved = device_.stats.reserved() - released;
  if (released == 0 || bytes_to_obtain(params_) > device_free_ + released) return "";
  if (limit() != kUnlimited && reserved + params_.segment_size > limit()) return "";
  return "CACHALOT_ALLOC_CONF without throw_on_cudamalloc_oom would have made room by giving " +
         format_size(released) + " of cached memory back first";
}

// Only where memory is there: a larger reserve gives addresses, not memory.
std::string OomHints::with_larger_reserve() const {
  if (!is_reserve_too_small() || !has_room(params_)) return "";
  if (params_.size > device_total_) return "";
  const std::string name = device_.shared.reserve_classes.of(params_.stream);
  const bool is_of_class = settings().expandable_segments_reserve_by_class.contains(name);
  return std::string("a larger ") +
         (is_of_class ? "expandable_segments_reserve_by_class" : "expandable_segments_reserve") +
         " in CACHALOT_ALLOC_CONF would have made room: " + format_size(device_free_) +
         " is free on the device";
}

// Adds up what pages would have saved in all segments. The sum is a lower bound if blocks in use that
// are neighbours now had been neighbours then. Now and then they would not: of 2,050 failures of
// random requests, 3 would have come no later.
std::string OomHints::with_expandable_segments() const {
  if (settings().expandable_segments || !driver().supports_virtual_memory()) return "";
  if (has_own_source() || settings().throw_on_cudamalloc_oom || device_.captures.may_be_under_way())
    return "";
  int64_t gain = 0;
  for (const auto& [address, segment] : device_.heap.segments()) gain += gain_from_pages(*segment);
  if (gain <= 0) return "";
  const auto gained = static_cast<uint64_t>(gain);
  const uint64_t wanted =
      std::max(params_.segment_size,
               round_up(params_.size, device_.settings.page_size(params_.pool->is_small)));
  const bool lacks_memory = params_.segment_size > device_free_ || limits_.is_over_limit(params_);
  if (!lacks_memory || wanted > device_free_ + gained || would_reserve_be_too_small()) return "";
  if (limit() != kUnlimited && device_.stats.reserved() - gained + wanted > limit()) return "";
  return "CACHALOT_ALLOC_CONF=expandable_segments:True would have made room: " +
         format_size(gained) + " lies in whole free pages of segments in use";
}

}  // namespace cachalot
