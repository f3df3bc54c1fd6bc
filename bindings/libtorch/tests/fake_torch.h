// SPDX-License-Identifier: MIT OR Apache-2.0
// How tests look into the library of fake_torch.cpp.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

struct CUstream_st;

namespace fake_torch {

using PoolId = std::pair<unsigned long long, unsigned long long>;
using Filter = std::function<bool(CUstream_st*)>;

// What an allocator was given.
struct Functions {
  std::function<void*(size_t, int, CUstream_st*)> alloc;
  std::function<void(void*, size_t, int, CUstream_st*)> free;
  std::function<void(int)> init;
  std::function<void()> reset;
  std::function<void(double, int)> memory_fraction;
  std::function<void*(void*, size_t*)> base_alloc;
  std::function<void(void*, CUstream_st*)> record_stream;
  std::function<void(int, PoolId, Filter)> begin_allocate_to_pool;
  std::function<void(int, PoolId)> end_allocate_to_pool;
  std::function<void(int, PoolId)> release_pool;
};

enum class Caught { kNothing, kError, kOutOfMemory };

// `fake_torch_state` of the library gives the only one.
struct State {
  const Functions* current = nullptr;  // of the allocator that is current
  int live_allocators = 0;
  bool is_in_use = false;
  // Which of its exceptions a function throws.
  Caught (*catch_from)(const std::function<void()>& function) = nullptr;
};

}  // namespace fake_torch
