// SPDX-License-Identifier: MIT OR Apache-2.0
#include "sleep_model.h"

#include <algorithm>

#include "sized.h"

namespace cachalot_test {

bool SleepingPool::keeps(const LiveBlock& block) const {
  const auto own = by_label.find(block.label);
  return (own == by_label.end() ? contents : own->second) != CACHALOT_SLEEP_DISCARD;
}

// The contents of blocks go with the last block.
bool SleepingPool::keeps_nothing() const {
  if (contents == CACHALOT_SLEEP_KEEP_ALL) return false;
  const bool keeps_label = std::any_of(by_label.begin(), by_label.end(), [](const auto& rule) {
    return rule.second != CACHALOT_SLEEP_DISCARD;
  });
  return blocks.empty() || (contents == CACHALOT_SLEEP_DISCARD && !keeps_label);
}

SleepingPool* SleepModel::find(const PoolKey& key) {
  const auto found = std::find_if(pools_.begin(), pools_.end(),
                                  [&](const SleepingPool& pool) { return pool.key == key; });
  return found == pools_.end() ? nullptr : &*found;
}

SleepingPool& SleepModel::add(const PoolKey& key, int32_t contents, int depth) {
  pools_.push_back({key, contents, {}});
  pools_.back().depth = depth;
  return pools_.back();
}

void SleepModel::remove(const SleepingPool& pool) {
  pools_.remove_if([&](const SleepingPool& other) { return &other == &pool; });
}

SleepingPool* SleepModel::in_transit_at(int depth) {
  for (SleepingPool& pool : pools_)
    if (pool.is_in_transit() && pool.depth == depth) return &pool;
  return nullptr;
}

bool SleepModel::is_any_in_transit() const {
  return std::any_of(pools_.begin(), pools_.end(),
                     [](const SleepingPool& pool) { return pool.is_in_transit(); });
}

bool SleepModel::expect(int32_t device, cachalot_sleep_stats* stats) const {
  bool is_whole = true;
  *stats = sized<cachalot_sleep_stats>();
  stats->num_sleeps = counts_[static_cast<size_t>(device)].sleeps;
  stats->num_wakes = counts_[static_cast<size_t>(device)].wakes;
  for (const SleepingPool& pool : pools_) {
    if (pool.key.device != device) continue;
    is_whole = is_whole && !pool.is_in_transit();
    stats->pools++;
    stats->blocks += pool.blocks.size();
    for (const LiveBlock& block : pool.blocks) stats->allocated_bytes += block.size;
    stats->asleep_bytes += pool.bytes;
    stats->kept_bytes += pool.kept;
  }
  return is_whole;
}

}  // namespace cachalot_test
