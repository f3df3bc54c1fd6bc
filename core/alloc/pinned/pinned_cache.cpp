// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/pinned/pinned_cache.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "alloc/pinned/pinned_pools.h"
#include "base/reserve.h"
#include "base/text.h"

namespace cachalot {
// All blocks of a class have one size where sizes are rounded, so the top serves the request then.
PinnedBlock* PinnedCache::take_below_top(Class& home, uint64_t size) {
  PinnedBlock** link = &home.top;
  while (*link != nullptr && size_of(*link) < size) link = &(*link)->next;
  PinnedBlock* const block = *link;
  if (block != nullptr) *link = block->next;
  return block;
}

void PinnedCache::add_used(PinnedBlock* block, bool is_captured) {
  {
    const BiasedLock::Guard guard(lock_);
    Class& of_block = home(block);
    hand_out(block, is_captured);
    count(of_block, size_of(block), Change::kHandedOut);
  }
  count_elsewhere(size_of(block), Change::kHandedOut);
}

PinnedCache::Freed PinnedCache::complete(PinnedBlock* block, uint64_t largest_cached) {
  uint64_t size = 0;
  Freed freed = Freed::kUnknown;
  {
    const BiasedLock::Guard guard(lock_);
    CACHALOT_ASSERT(1, block->state == PinnedBlock::State::kWaiting);
    block->uses.clear();
    size = size_of(block);
    Class& home = home_of(size);
    count(home, size, Change::kCompleted);
    freed = end_use(home, block, size <= largest_cached);
  }
  count_elsewhere(size, Change::kCompleted);
  return freed;
}

void PinnedCache::put(PinnedBlock* block) {
  const BiasedLock::Guard guard(lock_);
  CACHALOT_ASSERT(1, block->state == PinnedBlock::State::kNone);
  push(home(block), block);
}

void PinnedCache::count_in_other(uint64_t size, Change change) const {
  Class& counting = counted_in_->classes_[class_of(size)];
  const BiasedLock::Guard guard(counted_in_->lock_);
  add(counting, size, change);
}

bool PinnedCache::is_handed_out(const PinnedBlock* block, Address address) {
  const BiasedLock::Guard guard(lock_);
  return is_used(block, address);
}

bool PinnedCache::record_use(PinnedBlock* block, Address address, const PinnedUse& use) {
  const BiasedLock::Guard guard(lock_);
  if (!is_used(block, address)) return false;
  const auto is_same = [&](const PinnedUse& other) {
    return other.stream == use.stream && other.device == use.device;
  };
  if (std::none_of(block->uses.begin(), block->uses.end(), is_same)) block->uses.push_back(use);
  return true;
}

void PinnedCache::take_all(std::vector<PinnedBlock*>* blocks) {
  for_each_class([&](Class& each) {
    const size_t first = blocks->size();
    size_t count = 0;
    for (const PinnedBlock* block = each.top; block != nullptr; block = block->next) count++;
    reserve_for(*blocks, first + count);
    while (each.top != nullptr) {
      PinnedBlock* const block = std::exchange(each.top, each.top->next);
      block->state = PinnedBlock::State::kNone;
      blocks->push_back(block);
    }
    std::reverse(blocks->begin() + static_cast<ptrdiff_t>(first), blocks->end());
  });
}

// ---- Statistics and the auditor

template <class See>
void PinnedCache::for_each_class(See see) {
  const BiasedLock::Guard guard(lock_);
  for (Class& each : classes_) see(each);
}

void PinnedCache::add_stats(PinnedStats* stats) {
  for_each_class([&](const Class& each) {
    stats->active_requests += each.requests;
    stats->active_bytes += each.bytes;
  });
}

void PinnedCache::reset_peaks() {
  for_each_class([](Class& each) {
    each.requests.reset_peak();
    each.bytes.reset_peak();
  });
}

void PinnedCache::reset_accumulated() {
  for_each_class([](Class& each) {
    each.requests.reset_accumulated();
    each.bytes.reset_accumulated();
  });
}

void PinnedCache::take_stats_of(PinnedCache& other) {
  std::array<std::pair<Stat, Stat>, kClasses> taken;
  {
    const BiasedLock::Guard guard(other.lock_);
    for (size_t i = 0; i < kClasses; i++) {
      taken[i] = {std::exchange(other.classes_[i].requests, {}),
                  std::exchange(other.classes_[i].bytes, {})};
    }
  }
  const BiasedLock::Guard guard(lock_);
  for (size_t i = 0; i < kClasses; i++) {
    classes_[i].requests += taken[i].first;
    classes_[i].bytes += taken[i].second;
  }
}

std::string PinnedCache::check() {
  std::string found;
  for_each_class([&](const Class& each) {
    for (const PinnedBlock* block = each.top; block != nullptr; block = block->next) {
      const bool is_right = block->state == PinnedBlock::State::kFree &&
                            &block->pool->cache == this && &home(block) == &each &&
                            block->uses.empty();
      if (!is_right && found.empty())
        found = format("the pinned block at 0x%" PRIx64 " is in a class that it does not belong to",
                       block->address.load());
    }
  });
  return found;
}

}  // namespace cachalot
