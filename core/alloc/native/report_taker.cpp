// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/native/report_taker.h"

#include <algorithm>

#include "alloc/native/cache_release.h"

namespace cachalot {

ReportTaker::ReportTaker(DeviceState& device)
    : DeviceOperation(device),
      cache_(device),
      limits_(device),
      may_release_(!device.captures.may_be_under_way()),
      deferred_(device.pending.deferred_blocks()) {
  report_.device = device.index;
}

// One walk over all blocks. Rows are sorted at the end, when their sums are known.
Report ReportTaker::take(const Request& request) {
  if (request.size != 0) set_request(request);
  set_totals();
  for (const auto& [address, segment] : device_.heap.segments()) {
    for (const Block* b = segment->first(); b != &segment->ends; b = b->next) {
      if (!b->is(Block::kUnmapped)) add(b);
    }
  }
  if (params_) {
    OomHints oom_hints(device_, *params_, report_.device_free, report_.device_total);
    report_.outcome = outcome(oom_hints);
    if (report_.outcome == Outcome::kFails) report_.advice = oom_hints.line();
  }
  sort_rows();
  return std::move(report_);
}

// Rounded and routed as the request itself would be, so that the report speaks of the pool that it
// would ask.
void ReportTaker::set_request(const Request& request) {
  params_ = cache_.make_params(device_.shards.find(request.stream), request, kNoContext);
  params_->segment_size = cache_.segment_size_for(*params_);
  // The limit refuses first, as in a request (R31).
  params_->rejected = !limits_.is_over_limit(*params_) && limits_.is_rejected(*params_);
  report_.requested = params_->requested;
  report_.size = params_->size;
  report_.segment_size = params_->segment_size;
  report_.stream = params_->stream;
  report_.pool = pool_id_of(*params_->pool);
  report_.is_small = params_->pool->is_small;
}

void ReportTaker::set_totals() {
  const DeviceMemory memory = limits_.device_memory();
  report_.device_total = memory.total;
  report_.device_free = memory.available;
  report_.limit = limit() == kUnlimited ? 0 : limit();
  report_.reserved = device_.stats.reserved();
  // While pages go or come, some of the bytes are reserved, so the pool counts only when it has none.
  for (const auto& [id, pool] : device_.pools.all())
    if (pool->sleep && pool->sleep->state == SleepingPool::State::kAsleep)
      report_.asleep += pool->sleep->bytes();
}

void ReportTaker::add(const Block* block) {
  if (block->is(Block::kUsed)) {
    report_.allocated += block->size;
    add_holder(block);
    return;
  }
  add_cached(block);
  if (!block->is_free()) {
    report_.pending += block->size;
    return;
  }
  report_.cached += block->size;
  // Of any pool and stream, as in the out-of-memory text.
  report_.largest_free_block = std::max(report_.largest_free_block, block->size);
  report_.releasable += bytes_to_trim(block);
}

// Rows are found by numbers. Names are looked up once a row, since each takes a lock.
void ReportTaker::add_holder(const Block* block) {
  const StreamFreeList& list = list_of(block);
  const uint32_t label = has(kLabels) ? block->detail().label : 0;
  const uint32_t tenant = has(kTenants) ? block->detail().tenant : 0;
  const PoolId pool = pool_id_of(*list.pool);
  const Stream stream = device_.stream_of(block);
  auto [place, is_new] = holders_.try_emplace({label, tenant, stream, pool});
  HolderRow& row = place->second;
  if (is_new) {
    const uint64_t id = device_.shared.tenants->id_and_name(tenant).first;
    row = {device_.shared.labels.text(label), static_cast<uint32_t>(id), stream, pool, 0, 0, 0};
  }
  row.blocks++;
  row.bytes += block->size;
  row.requested += block->requested;
}

void ReportTaker::add_cached(const Block* block) {
  const Reason reason = reason_for(block);
  CachedRow& row = reasons_[static_cast<size_t>(reason)];
  row.reason = reason;
  row.blocks++;
  row.bytes += block->size;
  row.largest = std::max(row.largest, block->size);
  row.releasable += bytes_to_trim(block);
}

// The first reason that applies, in the order of the enumeration: a block has one row only.
Reason ReportTaker::reason_for(const Block* block) const {
  if (block->is(Block::kWaiting))
    return deferred_.contains(block) ? Reason::kPendingCapture : Reason::kPendingEvents;
  return params_ ? reason_in_cache(block) : Reason::kUsable;
}

Reason ReportTaker::reason_in_cache(const Block* block) const {
  const BlockPool& pool = *block->segment()->pool;
  // A pool that opted in is not in the way of a request of the default pools.
  const bool is_fallback = serves_when_nothing_else_does(pool.owner);
  if (pool.owner != params_->pool->owner && !is_fallback) return Reason::kOtherPool;
  if (pool.is_small != params_->pool->is_small) return Reason::kOtherClass;
  const bool may_borrow = device_.policy && device_.policy->may_borrow(*params_);
  if (block->segment()->stream != params_->stream && !may_borrow) return Reason::kOtherStream;
  const bool may_be_expandable =
      params_->expandable && (!is_fallback || rules().mend_fallback_expandable);
  if (block->is(Block::kExpandable) && !may_be_expandable) return Reason::kExpandable;
  if (block->size < params_->size) return Reason::kTooSmall;
  if (cache_.is_oversize_mismatch(*params_, block)) return Reason::kNotSplit;
  return Reason::kUsable;
}

// [core 17.7]
bool ReportTaker::serves_when_nothing_else_does(const PrivatePool* pool) const {
  if (!pool || params_->pool->owner) return false;
  return device_.pools.is_used_on_oom(pool->id);
}

// The same bytes as Trim would find, apart from how long they have been idle.
uint64_t ReportTaker::bytes_to_trim(const Block* block) const {
  const BlockPool& pool = *block->segment()->pool;
  const bool is_kept = pool.owner && pool.owner->keeps_memory();
  return may_release_ && !is_kept && block->is_free() ? device_.heap.releasable_bytes(block) : 0;
}

// Follows the ladder of a miss without taking any of its steps.
Outcome ReportTaker::outcome(const OomHints& oom_hints) const {
  const Block* found = cache_.best_fit(*params_);
  if (found && !cache_.is_oversize_mismatch(*params_, found)) return Outcome::kFromCache;
  if (oom_hints.has_own_source())
    return limits_.is_over_limit(*params_) ? Outcome::kFails : Outcome::kFromDevice;
  if (device_.policy) return device_.policy->outcome(*params_, report_.device_free);
  if (!oom_hints.is_reserve_too_small() && oom_hints.has_room(*params_))
    return Outcome::kFromDevice;
  if (params_->rejected && !rules().mend_rejection) return Outcome::kFails;
  const bool has_fallback = reasons_[static_cast<size_t>(Reason::kUsable)].blocks > 0;
  if (has_fallback || has_room_after_release(oom_hints)) return Outcome::kAfterRelease;
  return Outcome::kFails;
}

// The least that a release gives back: frees whose events are done by now are not counted.
bool ReportTaker::has_room_after_release(const OomHints& oom_hints) const {
  if (oom_hints.is_reserve_too_small()) return false;
  const uint64_t reserved = report_.reserved - report_.releasable;
  const bool is_allowed = report_.limit == 0 || reserved + params_->segment_size <= report_.limit;
  return is_allowed &&
         oom_hints.bytes_to_obtain(*params_) <= report_.device_free + report_.releasable;
}

// Stable, so that rows of equal size keep one order from report to report.
void ReportTaker::sort_rows() {
  const auto has_more = [](const auto& a, const auto& b) { return a.bytes > b.bytes; };
  for (auto& [key, row] : holders_) report_.holders.push_back(std::move(row));
  for (const CachedRow& row : reasons_) {
    if (row.blocks != 0) report_.reasons.push_back(row);
  }
  std::stable_sort(report_.holders.begin(), report_.holders.end(), has_more);
  std::stable_sort(report_.reasons.begin(), report_.reasons.end(), has_more);
}

}  // namespace cachalot
