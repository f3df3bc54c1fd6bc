// SPDX-License-Identifier: MIT OR Apache-2.0
// What a run knows of its pools that sleep, and of the blocks that come back with them.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "block_model.h"

namespace cachalot_test {

struct SleepingPool {
  PoolKey key;
  int32_t contents;                         // CACHALOT_SLEEP_*
  std::map<std::string, int32_t> by_label;  // what becomes of blocks with a label instead
  int32_t state = CACHALOT_POOL_FALLING_ASLEEP;
  int depth = 0;                       // of the call that puts it to sleep, or wakes it
  uint64_t given_back = 0;             // bytes, by that call
  uint64_t bytes = 0;                  // that the driver has back
  uint64_t kept = 0;                   // bytes
  std::vector<LiveBlock> blocks = {};  // none before it sleeps
  std::vector<std::pair<cachalot_stream, uint64_t>> work = {};  // on streams, before it fell asleep

  bool is_in_transit() const { return state != CACHALOT_POOL_ASLEEP; }
  bool keeps(const LiveBlock& block) const;
  bool keeps_nothing() const;
};

class SleepModel {
 public:
  explicit SleepModel(int32_t device_count) : counts_(static_cast<size_t>(device_count)) {}

  struct Counts {
    uint64_t sleeps = 0;
    uint64_t wakes = 0;
  };

  // Stays where it is until it is removed.
  std::list<SleepingPool>& pools() { return pools_; }
  SleepingPool* find(const PoolKey& key);
  SleepingPool& add(const PoolKey& key, int32_t contents, int depth);
  void remove(const SleepingPool& pool);
  // The pool that the call of this depth puts to sleep or wakes; null: it does neither.
  SleepingPool* in_transit_at(int depth);
  bool is_any_in_transit() const;
  Counts& counts(int32_t device) { return counts_[static_cast<size_t>(device)]; }

  // What the statistics of a device have to say. False: a pool is falling asleep or waking, so that
  // its figures are on their way.
  bool expect(int32_t device, cachalot_sleep_stats* stats) const;

 private:
  std::list<SleepingPool> pools_;
  std::vector<Counts> counts_;
};

}  // namespace cachalot_test
