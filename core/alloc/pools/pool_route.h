// SPDX-License-Identifier: MIT OR Apache-2.0
// What callers say of private pools: where a pool's memory comes from, and which requests go to it.
#pragma once

#include <functional>
#include <memory>

#include "device/device.h"

namespace cachalot {

// A pool's own source of segments [core 17.10]. Kept alive by the pool.
class PoolSource {
 public:
  PoolSource() = default;
  PoolSource(const PoolSource&) = delete;
  PoolSource& operator=(const PoolSource&) = delete;
  virtual ~PoolSource() = default;
  // 0: out of memory. stream: the thread's current one.
  virtual Address allocate(uint64_t size, int device, Stream stream) = 0;
  virtual void free(Address address, uint64_t size, int device, Stream stream) = 0;
};

// Takes a request by its stream; called with the device's lock held, on the requesting thread.
using PoolFilter = std::function<bool(Stream stream)>;

// What a pool is created with. Joining an existing pool keeps that pool's own.
struct PoolOptions {
  bool use_on_oom = false;
  bool no_split = false;
  std::shared_ptr<PoolSource> source;
};

}  // namespace cachalot
