// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/pinned/pinned_cache.h"

#include <algorithm>
#include <cinttypes>
#include <mutex>
#include <utility>

#include "alloc/pinned/pinned_pools.h"
#include "base/reserve.h"
#include "base/text.h"

namespace cachalot {
namespace {

using State = PinnedBlock::State;

// The address is compared again, because the object may stand for another block since the caller has looked it up.
bool is_used(const PinnedBlock* block, Address address) {
  return block->state == State::kUsed && block->address.load(std::memory_order_relaxed) == address;
}

uint64_t size_of(const PinnedBlock* block) { return block->size.load(std::memory_order_relaxed); }

}  // namespace

void PinnedCache::hand_out(PinnedBlock* block, bool is_captured) {
  block->state = State::kUsed;
  block->is_captured = is_captured;
}

void PinnedCache::push(Class& home, PinnedBlock* block) {
  block->state = State::kFree;
  block->next = std::exchange(home.top, block);
}

void PinnedCache::end_use(Class& home, PinnedBlock* block, bool keeps) {
  if (keeps) {
    push(home, block);
  } else {
    block->state = State::kNone;
  }
}

// All blocks of a class have one size where sizes are rounded: the walk ends at the first then.
PinnedBlock* PinnedCache::take(uint64_t size, bool is_captured) {
  Class& home = classes_[class_of(size)];
  PinnedBlock* block = nullptr;
  {
    const std::lock_guard lock(home.lock);
    PinnedBlock** link = &home.top;
    while (*link != nullptr && size_of(*link) < size) [[unlikely]] link = &(*link)->next;
    block = *link;
    if (block == nullptr) [[unlikely]]
      return nullptr;
    *link = block->next;
    hand_out(block, is_captured);
    count(home, size_of(block), Change::kHandedOut);
  }
  count_elsewhere(size_of(block), Change::kHandedOut);
  return block;
}

void PinnedCache::add_used(PinnedBlock* block, bool is_captured) {
  {
    Class& of_block = home(block);
    const std::lock_guard lock(of_block.lock);
    hand_out(block, is_captured);
    count(of_block, size_of(block), Change::kHandedOut);
  }
  count_elsewhere(size_of(block), Change::kHandedOut);
}

// A block that waits for streams counts as active until they are done, and one that is lost for ever.
PinnedCache::Freed PinnedCache::free(PinnedBlock* block, Address address, bool keeps) {
  const uint64_t size = size_of(block);
  {
    Class& of_block = home(block);
    const std::lock_guard lock(of_block.lock);
    if (!is_used(block, address)) return Freed::kUnknown;
    if (!block->uses.empty()) {
      block->state = block->is_captured ? State::kLost : State::kWaiting;
      return block->is_captured ? Freed::kLost : Freed::kWaits;
    }
    count(of_block, size, Change::kFreed);
    end_use(of_block, block, keeps);
  }
  count_elsewhere(size, Change::kFreed);
  return Freed::kDone;
}

void PinnedCache::complete(PinnedBlock* block, bool keeps) {
  const uint64_t size = size_of(block);
  {
    Class& of_block = home(block);
    const std::lock_guard lock(of_block.lock);
    CACHALOT_ASSERT(1, block->state == State::kWaiting);
    block->uses.clear();
    count(of_block, size, Change::kCompleted);
    end_use(of_block, block, keeps);
  }
  count_elsewhere(size, Change::kCompleted);
}

void PinnedCache::put(PinnedBlock* block) {
  Class& of_block = home(block);
  const std::lock_guard lock(of_block.lock);
  CACHALOT_ASSERT(1, block->state == State::kNone);
  push(of_block, block);
}

void PinnedCache::count_in_other(uint64_t size, Change change) const {
  Class& counting = counted_in_->classes_[class_of(size)];
  const std::lock_guard lock(counting.lock);
  add(counting, size, change);
}

bool PinnedCache::is_handed_out(const PinnedBlock* block, Address address) {
  const std::lock_guard lock(home(block).lock);
  return is_used(block, address);
}

bool PinnedCache::record_use(PinnedBlock* block, Address address, const PinnedUse& use) {
  const std::lock_guard lock(home(block).lock);
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
      block->state = State::kNone;
      blocks->push_back(block);
    }
    std::reverse(blocks->begin() + static_cast<ptrdiff_t>(first), blocks->end());
  });
}

// ---- Statistics and the auditor

template <class See>
void PinnedCache::for_each_class(See see) {
  for (Class& each : classes_) {
    const std::lock_guard lock(each.lock);
    see(each);
  }
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
  for (size_t i = 0; i < kClasses; i++) {
    Stat requests;
    Stat bytes;
    {
      Class& from = other.classes_[i];
      const std::lock_guard lock(from.lock);
      std::swap(requests, from.requests);
      std::swap(bytes, from.bytes);
    }
    const std::lock_guard lock(classes_[i].lock);
    classes_[i].requests += requests;
    classes_[i].bytes += bytes;
  }
}

std::string PinnedCache::check() {
  std::string found;
  for_each_class([&](const Class& each) {
    for (const PinnedBlock* block = each.top; block != nullptr; block = block->next) {
      const bool is_right = block->state == State::kFree && &block->pool->cache == this &&
                            &home(block) == &each && block->uses.empty();
      if (!is_right && found.empty())
        found = format("the pinned block at 0x%" PRIx64 " is in a class that it does not belong to",
                       block->address.load());
    }
  });
  return found;
}

}  // namespace cachalot
