// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/pinned/pinned_allocator.h"

#include <algorithm>
#include <cinttypes>
#include <exception>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "device/device_count.h"
#include "device/driver_error.h"

namespace cachalot {
namespace {

// The reference's.
std::string uncaptured_text(PoolId pool, const Wording& wording) {
  return format("CachingHostAllocator is allocating to private pool (%" PRIu64 ",%" PRIu64
                ") but the current stream is not capturing. %s",
                pool.first, pool.second, wording.pinned_pool_without_capture);
}

}  // namespace

PinnedAllocator::PinnedAllocator(Driver& driver, const Rules& rules, Log& log,
                                 const PinnedSettings& settings)
    : driver_(driver),
      wording_(rules.wording()),
      log_(log),
      memory_(driver),
      pools_(driver, rules, log) {
  set_settings(settings);
}

PinnedAllocator::~PinnedAllocator() {
  background_.stop();
  for (PinnedPool* const pool : pools_.all()) {
    while (PinnedBlock* const block = pool->waiting.take_waited())
      pool->cache.complete(block, UINT64_MAX);
  }
  blocks_.for_each([&](const PinnedBlock* block) {
    if (!block->is_in_region) driver_.host_free(block->address, block->origin);
  });
}

// ---- Requests

void PinnedAllocator::throw_no_block(Address address) {
  throw_invalid_argument(format("no pinned block begins at 0x%" PRIx64, address));
}

void PinnedAllocator::throw_too_large(uint64_t size) {
  throw_invalid_argument(
      format("%" PRIu64 " bytes of pinned memory: a block has at most 2^63", size));
}

Address PinnedAllocator::allocate_routed(uint64_t size, int device, Stream current_stream) {
  const PinnedPools::Route route = pools_.route_of(current_stream);
  const bool is_taken = route.pool() != nullptr;
  PinnedPool& pool = is_taken ? *route.pool() : pools_.default_pool();
  if (is_taken || looks_at_events_.load(std::memory_order_relaxed)) process_events(pool);
  CaptureInfo info;
  require_success(driver_, driver_.capture_info(device, current_stream, &info));
  if (is_taken && !info.capturing)
    log_.warn_once("pinned pool", uncaptured_text(route.id(), wording_));
  return allocate_from(pool, size, info.capturing);
}

PinnedBlock* PinnedAllocator::obtain(uint64_t size, PinnedPool& pool, bool is_captured) {
  const PinnedSettings settings = this->settings();
  // First, so that nothing has changed where no thread is to be had.
  if (settings.use_background_threads) start_background();
  PinnedBlock* const block = blocks_.take();
  try {
    const PinnedMemory::Range range = memory_.obtain(size, settings);
    block->size = size;
    block->pool = &pool;
    block->origin = range.origin;
    block->is_in_region = range.is_in_region;
    put(block, range);
  } catch (...) {
    blocks_.give(block);
    throw;
  }
  memory_.count(size);
  pool.blocks++;
  pool.cache.add_used(block, is_captured);
  return block;
}

void PinnedAllocator::put(PinnedBlock* block, const PinnedMemory::Range& range) {
  // It is not given back, which would take the other block's memory.
  if (blocks_.find(range.address) != nullptr)
    throw_invalid_state(
        format("the driver gave pinned memory at 0x%" PRIx64 ", where a block is", range.address));
  try {
    blocks_.put(block, range.address);
  } catch (...) {
    memory_.undo(range);
    throw;
  }
}

void PinnedAllocator::start_background() {
  background_.start([this] {
    try {
      process_events(pools_.default_pool());
    } catch (const std::exception&) {
      // The driver's, or for want of memory. The block goes on waiting.
    }
  });
}

void PinnedAllocator::record_stream(Address address, int device, Stream stream) {
  require_device(device, driver_.device_count());
  PinnedBlock* const block = blocks_.find(address);
  if (block == nullptr) throw_no_block(address);
  const PinnedUse use{device, driver_.resolve(stream), 0};
  if (!block->pool->cache.record_use(block, address, use))
    throw_invalid_state(format("the pinned block at 0x%" PRIx64 " has been freed", address));
}

uint64_t PinnedAllocator::size_of(Address address) {
  PinnedBlock* const block = blocks_.find(address);
  if (block == nullptr || !block->pool->cache.is_handed_out(block, address))
    throw_no_block(address);
  return block->size;
}

// ---- Frees

void PinnedAllocator::end_free(PinnedBlock* block, Address address, PinnedCache::Freed freed) {
  switch (freed) {
    case PinnedCache::Freed::kUnknown:
      throw_no_block(address);
    case PinnedCache::Freed::kNotKept:
      give_back_or_keep(block);
      break;
    case PinnedCache::Freed::kWaits:
      block->pool->waiting.add(block);
      break;
    case PinnedCache::Freed::kCached:
    case PinnedCache::Freed::kLost:
      break;
  }
}

void PinnedAllocator::process_events(PinnedPool& pool) {
  while (PinnedBlock* const block = pool.waiting.take_done()) complete(block);
}

void PinnedAllocator::complete(PinnedBlock* block) {
  const uint64_t largest_cached = largest_cached_.load(std::memory_order_relaxed);
  const PinnedCache::Freed freed = block->pool->cache.complete(block, largest_cached);
  if (freed == PinnedCache::Freed::kNotKept) give_back_or_keep(block);
}

// ---- Giving back

// pre: the block is in no list. Throws Error where the driver refuses, and the block is as before: its memory is the
// driver's still, so it can be handed out again.
void PinnedAllocator::give_back(PinnedBlock* block) {
  const PinnedMemory::Range range{block->address, block->origin, block->is_in_region};
  // Before the memory goes, since the next block may get the same address.
  blocks_.forget(block);
  try {
    memory_.give_back(range, block->size);
  } catch (...) {
    log_.differ("U24", "kept a pinned block that the driver did not take back");
    blocks_.put(block, range.address);
    throw;
  }
  block->pool->blocks--;
  blocks_.give(block);
}

// [pinned 8.4, 8.5]: the caller is done with the block, so a refusal is no error of the call's, and neither is want of
// memory for its text.
void PinnedAllocator::give_back_or_keep(PinnedBlock* block) {
  try {
    give_back(block);
  } catch (const std::exception&) {
    block->pool->cache.put(block);
  }
}

void PinnedAllocator::give_back_cached(PinnedPool& pool) {
  std::vector<PinnedBlock*> blocks;
  size_t done = 0;
  try {
    pool.cache.take_all(&blocks);
    for (; done < blocks.size(); done++) give_back(blocks[done]);
  } catch (...) {
    for (; done < blocks.size(); done++) pool.cache.put(blocks[done]);
    throw;
  }
}

// [pinned 4.1, 6.4]: the default pool first, then those without users. Frees that wait in pools with users are not looked
// at.
void PinnedAllocator::empty_cache() {
  process_events(pools_.default_pool());
  give_back_cached(pools_.default_pool());
  for (PinnedPool* const released : pools_.released()) {
    process_events(*released);
    give_back_cached(*released);
  }
  pools_.end_empty();
}

std::vector<Address> PinnedAllocator::handed_out() {
  std::vector<Address> addresses;
  blocks_.for_each([&](PinnedBlock* block) {
    const Address address = block->address;
    if (block->pool->cache.is_handed_out(block, address)) addresses.push_back(address);
  });
  return addresses;
}

uint64_t PinnedAllocator::live_blocks() { return handed_out().size(); }

void PinnedAllocator::free_all() {
  for (const Address address : handed_out()) free(address);
  wait_for_frees();
}

void PinnedAllocator::wait_for_frees() {
  for (PinnedPool* const pool : pools_.all()) {
    while (PinnedBlock* const block = pool->waiting.take_waited()) complete(block);
  }
}

void PinnedAllocator::release_context(int device) {
  wait_for_frees();
  empty_cache();
  pools_.destroy_idle_events(device);
}

// ---- Settings, statistics, the auditor

void PinnedAllocator::set_settings(const PinnedSettings& settings) noexcept {
  const std::lock_guard lock(settings_lock_);
  settings_ = settings;
  largest_rounded_ =
      std::min({settings.max_round_threshold, settings.max_cached_size, kLargestSize});
  largest_cached_ = settings.max_cached_size;
  looks_at_events_ = !settings.use_background_threads;
}

PinnedSettings PinnedAllocator::settings() {
  const std::lock_guard lock(settings_lock_);
  return settings_;
}

PinnedStats PinnedAllocator::stats() {
  PinnedStats stats;
  memory_.add_stats(&stats);
  for (PinnedPool* const pool : pools_.all()) pool->cache.add_stats(&stats);
  return stats;
}

void PinnedAllocator::reset_peak_stats() {
  memory_.reset_peaks();
  for (PinnedPool* const pool : pools_.all()) pool->cache.reset_peaks();
}

void PinnedAllocator::reset_accumulated_stats() {
  memory_.reset_accumulated();
  for (PinnedPool* const pool : pools_.all()) pool->cache.reset_accumulated();
}

std::string PinnedAllocator::check() {
  for (PinnedPool* const pool : pools_.all()) {
    std::string found = pool->cache.check();
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace cachalot
