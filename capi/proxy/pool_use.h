// SPDX-License-Identifier: MIT OR Apache-2.0
// What the driver itself keeps for a program: memory that its pools and its graphs have reserved. It is asked now and
// then, where the program asks for such memory or waits for the device. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "driver_types.h"

namespace cachalot::proxy {

class Recording;

class PoolUse {
 public:
  explicit PoolUse(Recording* recording) : recording_(recording) {}

  // The program has used the pool; null: the device's own.
  void look(DeviceOrdinal device, MemoryPool pool, int64_t now_ns);
  // The program destroys the pool.
  void destroyed(DeviceOrdinal device, MemoryPool pool);
  // Writes again what was written last.
  void write_all();

 private:
  struct Bytes {
    uint64_t reserved = 0;
    uint64_t used = 0;

    bool operator==(const Bytes&) const = default;
  };
  // The device, and the pool's handle; the device's own memory of graphs has none.
  using Key = std::pair<DeviceOrdinal, uint64_t>;

  bool is_due(int64_t now_ns);
  void note(const Key& key, const Bytes& bytes);
  void write(const Key& key, const Bytes& bytes);

  Recording* const recording_;
  std::atomic<int64_t> next_ns_{0};
  Mutex mutex_{LockRank::kPoolUse};
  std::map<Key, Bytes> last_;
};

}  // namespace cachalot::proxy
