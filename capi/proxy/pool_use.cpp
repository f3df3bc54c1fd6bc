// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pool_use.h"

#include <mutex>

#include "device/pool_attributes.h"
#include "hexadecimal.h"
#include "real_driver.h"
#include "recording.h"

namespace cachalot::proxy {
namespace {

// The driver answers in some hundred nanoseconds, so this is no part of what a program takes.
constexpr int64_t kInterval = 1'000'000;
constexpr uint64_t kGraphs = 0;

uint64_t bytes_of_pool(MemoryPool pool, int attribute) {
  uint64_t bytes = 0;
  return call_real(real().cuMemPoolGetAttribute, pool, attribute, static_cast<void*>(&bytes)) == 0
             ? bytes
             : 0;
}

uint64_t bytes_of_graphs(DeviceOrdinal device, int attribute) {
  uint64_t bytes = 0;
  return call_real(real().cuDeviceGetGraphMemAttribute, device, attribute,
                   static_cast<void*>(&bytes)) == 0
             ? bytes
             : 0;
}

}  // namespace

// One thread at a time wins the moment.
bool PoolUse::is_due(int64_t now_ns) {
  int64_t next = next_ns_.load(std::memory_order_relaxed);
  return next <= now_ns &&
         next_ns_.compare_exchange_strong(next, now_ns + kInterval, std::memory_order_relaxed);
}

void PoolUse::look(DeviceOrdinal device, MemoryPool pool, int64_t now_ns) {
  if (!is_due(now_ns)) return;
  if (pool == nullptr && call_real(real().cuDeviceGetMemPool, &pool, device) != 0) return;
  using namespace pool_attribute;
  note({device, reinterpret_cast<uint64_t>(pool)},
       {bytes_of_pool(pool, kReservedCurrent), bytes_of_pool(pool, kUsedCurrent)});
  note({device, kGraphs}, {bytes_of_graphs(device, graph_attribute::kReservedCurrent),
                           bytes_of_graphs(device, graph_attribute::kUsedCurrent)});
}

void PoolUse::destroyed(DeviceOrdinal device, MemoryPool pool) {
  const Key key{device, reinterpret_cast<uint64_t>(pool)};
  const std::lock_guard guard(mutex_);
  if (last_.erase(key) != 0) write(key, {});
}

void PoolUse::note(const Key& key, const Bytes& bytes) {
  const std::lock_guard guard(mutex_);
  Bytes& last = last_[key];
  if (last == bytes) return;
  last = bytes;
  write(key, bytes);
}

void PoolUse::write_all() {
  const std::lock_guard guard(mutex_);
  for (const auto& [key, bytes] : last_) write(key, bytes);
}

void PoolUse::write(const Key& key, const Bytes& bytes) {
  std::string line = "# pool";
  for (const uint64_t number :
       {static_cast<uint64_t>(key.first), key.second, bytes.reserved, bytes.used}) {
    line += ' ';
    append_hex(&line, number);
  }
  recording_->append_comment(line + "\n");
}

}  // namespace cachalot::proxy
