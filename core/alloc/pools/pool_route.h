// SPDX-License-Identifier: MIT OR Apache-2.0
// The callers' part in private pools: the source of a pool's memory, and the requests that go to it.
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

// The options of a pool. Joining an existing pool adds those that are set; a source is refused then.
struct PoolOptions {
  bool use_on_oom = false;
  bool no_split = false;
  std::shared_ptr<PoolSource> source;
  bool is_pinned = false;
  bool whole_blocks = false;
};

}  // namespace cachalot
