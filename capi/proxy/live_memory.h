// SPDX-License-Identifier: MIT OR Apache-2.0
// What memory a recorded program has. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "alloc/trace/history.h"
#include "base/mutex.h"
#include "contexts.h"
#include "device/device.h"

namespace cachalot::proxy {

struct Memory {
  DriverContext* context;
  uint64_t size;
  Stream stream;
  char entry;         // how the program asked (docs/trace-format.md)
  bool is_cacheable;  // a block; else memory outside of any cache
  ContextId stack = kNoContext;
};

class LiveMemory {
 public:
  // Gives what was at the address before: memory that was given back by a way which no hook sees.
  std::optional<Memory> add(Address address, const Memory& memory);
  std::optional<Memory> take(Address address);
  std::vector<std::pair<Address, Memory>> take_all_of(const DriverContext* context);
  bool has_any_on(int device);
  template <class See>
  void for_each(See see) {
    for (Shard& shard : shards_) {
      const std::lock_guard guard(shard.mutex);
      for (const auto& [address, memory] : shard.memory) see(address, memory);
    }
  }

 private:
  struct Shard {
    Mutex mutex{LockRank::kLiveMemory};
    std::unordered_map<Address, Memory> memory;
  };

  // Addresses of the driver are multiples of 512 at least.
  Shard& shard_of(Address address) { return shards_[(address * 0x9e3779b97f4a7c15) >> 58]; }

  std::array<Shard, 64> shards_;
};

}  // namespace cachalot::proxy
