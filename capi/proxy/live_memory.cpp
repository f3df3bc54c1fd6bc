// SPDX-License-Identifier: MIT OR Apache-2.0
#include "live_memory.h"

#include <algorithm>
#include <utility>

namespace cachalot::proxy {

std::optional<Memory> LiveMemory::add(Address address, const Memory& memory) {
  Shard& shard = shard_of(address);
  const std::lock_guard guard(shard.mutex);
  const auto [row, is_new] = shard.memory.try_emplace(address, memory);
  if (is_new) return std::nullopt;
  return std::exchange(row->second, memory);
}

std::optional<Memory> LiveMemory::take(Address address) {
  Shard& shard = shard_of(address);
  const std::lock_guard guard(shard.mutex);
  const auto found = shard.memory.find(address);
  if (found == shard.memory.end()) return std::nullopt;
  const Memory memory = found->second;
  shard.memory.erase(found);
  return memory;
}

std::vector<std::pair<Address, Memory>> LiveMemory::take_all_of(const DriverContext* context) {
  std::vector<std::pair<Address, Memory>> taken;
  for (Shard& shard : shards_) {
    const std::lock_guard guard(shard.mutex);
    for (auto at = shard.memory.begin(); at != shard.memory.end();) {
      if (at->second.context == context) {
        taken.emplace_back(*at);
        at = shard.memory.erase(at);
      } else {
        ++at;
      }
    }
  }
  return taken;
}

bool LiveMemory::has_any_on(int device) {
  return std::any_of(shards_.begin(), shards_.end(), [&](Shard& shard) {
    const std::lock_guard guard(shard.mutex);
    return std::any_of(shard.memory.begin(), shard.memory.end(),
                       [&](const auto& row) { return row.second.context->device == device; });
  });
}

}  // namespace cachalot::proxy
