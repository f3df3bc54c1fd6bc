// SPDX-License-Identifier: MIT OR Apache-2.0
// The libtorch of this process: its functions, by their symbols.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "cachalot/cachalot.h"
#include "hooks.h"
#include "torch_error.h"

namespace c10::cuda::CUDACachingAllocator {
class CUDAAllocator;
}

namespace cachalot::libtorch {

using pluggable::Filter;
using pluggable::PoolId;
using pluggable::Stream;

// The standard library's classes in these types have one layout and one way to be passed in all releases of libstdc++.
// A pointer to an allocator is one to its base, which lies at its beginning.
using Allocator = std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator>;
template <class... Arguments>
using Setter = void (*)(void* allocator, std::function<Arguments>...);

// The functions of torch::cuda::CUDAPluggableAllocator, and the setters of the allocator that the first one makes.
struct Functions {
  Allocator (*create)(std::function<void*(size_t, int, Stream)>,
                      std::function<void(void*, size_t, int, Stream)>);
  void (*change_current)(const Allocator&);
  Setter<void(int)> set_init;
  Setter<void()> set_reset;
  Setter<void(double, int)> set_memory_fraction;
  Setter<void*(void*, size_t*)> set_base_alloc;
  Setter<void(void*, Stream)> set_record_stream;
  Setter<void(int, PoolId, Filter)> set_begin_allocate_to_pool;
  Setter<void(int, PoolId)> set_end_allocate_to_pool;
  Setter<void(int, PoolId)> set_release_pool;
};

struct Torch {
  Functions functions{};
  pluggable::TorchErrors errors;
  int32_t major = 0;  // with the others 0: it does not tell its version
  int32_t minor = 0;
  int32_t patch = 0;
  const char* library = "";  // its path, which lives as long as libtorch, which is never unloaded

  // For messages: "libtorch 2.11.0 (PATH)", without a version where it does not tell it.
  std::string name() const;

  // CACHALOT_RELEASE_..., or 0 where cachalot has no such release.
  int32_t release() const;
};

cachalot_status find_torch(Torch* out, cachalot_error* error);

}  // namespace cachalot::libtorch
