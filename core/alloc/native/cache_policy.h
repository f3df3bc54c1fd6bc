// SPDX-License-Identifier: MIT OR Apache-2.0
// What a device asks where a policy of the library's own decides instead of the reference: how a request
// is served that the cache of its stream cannot serve.
#pragma once

#include <functional>
#include <memory>

#include "alloc/native/alloc_params.h"

namespace cachalot {

class DeviceState;

class CachePolicy {
 public:
  CachePolicy() = default;
  virtual ~CachePolicy() = default;
  CachePolicy(const CachePolicy&) = delete;
  CachePolicy& operator=(const CachePolicy&) = delete;

  // A free block for the request, in no set; null: out of memory. Throws what the driver says. pre: the
  // whole device; the request is of a pool without a source of its own.
  virtual Block* find_memory(AllocParams& params) = 0;
};

// Makes the policy of a device; empty: the reference decides.
using MakeCachePolicy = std::function<std::unique_ptr<CachePolicy>(DeviceState&)>;

}  // namespace cachalot
