// SPDX-License-Identifier: MIT OR Apache-2.0
// A library with what cachalot takes of libtorch's, declared as in libtorch's headers, so that the compiler gives the
// functions their names. FAKE_WITHOUT_CUDA: a libtorch without CUDA. FAKE_INCOMPLETE: one that lacks a
// function. FAKE_WITHOUT_ERRORS: one that lacks the exception classes, which tests/abi/small_c10 stands in for.
// FAKE_OLD_ABI: one with the older std::string, which does not tell its version.
#include "fake_torch.h"

#include <cstdint>
#include <memory>
#include <utility>
#ifdef FAKE_TORCH
#include <c10/util/Exception.h>
#endif

#define API __attribute__((visibility("default")))

namespace c10 {

struct Allocator;
API Allocator* GetCPUAllocator() { return nullptr; }

}  // namespace c10

#ifndef FAKE_WITHOUT_CUDA

namespace c10::cuda::CUDACachingAllocator {

class CUDAAllocator {
 public:
  virtual ~CUDAAllocator() = default;
};

}  // namespace c10::cuda::CUDACachingAllocator

namespace torch::cuda::CUDAPluggableAllocator {
namespace {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using fake_torch::Filter;
using fake_torch::PoolId;

#ifdef FAKE_TORCH

using fake_torch::Caught;

Caught catch_from(const std::function<void()>& function) {
  try {
    function();
    return Caught::kNothing;
  } catch (const c10::OutOfMemoryError&) {
    return Caught::kOutOfMemory;
  } catch (const c10::Error&) {
    return Caught::kError;
  }
}

void refuse() { throw c10::Error("It is in use\nand this is the backtrace", nullptr, nullptr); }

fake_torch::State state{.catch_from = catch_from};

#else

void refuse() {}

fake_torch::State state;

#endif

}  // namespace

struct CUDAPluggableAllocator : CUDAAllocator {
  CUDAPluggableAllocator() { state.live_allocators++; }
  ~CUDAPluggableAllocator() override { state.live_allocators--; }

  API void set_init_fn(std::function<void(int)> function);
  API void set_reset_fn(std::function<void()> function);
  API void set_memory_fraction_fn(std::function<void(double, int)> function);
  API void set_base_alloc_fn(std::function<void*(void*, size_t*)> function);
  API void set_record_stream_fn(std::function<void(void*, CUstream_st*)> function);
  API void set_begin_allocate_to_pool(std::function<void(int, PoolId, Filter)> function);
  API void set_end_allocate_to_pool_fn(std::function<void(int, PoolId)> function);
  API void set_release_pool(std::function<void(int, PoolId)> function);

  fake_torch::Functions functions;
};

#define SETTER(name, member, ...)                                          \
  void CUDAPluggableAllocator::name(std::function<__VA_ARGS__> function) { \
    functions.member = std::move(function);                                \
  }
SETTER(set_init_fn, init, void(int))
SETTER(set_reset_fn, reset, void())
SETTER(set_memory_fraction_fn, memory_fraction, void(double, int))
SETTER(set_base_alloc_fn, base_alloc, void*(void*, size_t*))
SETTER(set_record_stream_fn, record_stream, void(void*, CUstream_st*))
SETTER(set_begin_allocate_to_pool, begin_allocate_to_pool, void(int, PoolId, Filter))
SETTER(set_end_allocate_to_pool_fn, end_allocate_to_pool, void(int, PoolId))
#ifndef FAKE_INCOMPLETE
SETTER(set_release_pool, release_pool, void(int, PoolId))
#endif

API std::shared_ptr<CUDAAllocator> createCustomAllocator(
    std::function<void*(size_t, int, CUstream_st*)> alloc,
    std::function<void(void*, size_t, int, CUstream_st*)> free) {
  // No make_shared: what it makes unique in the process would keep this library loaded.
  std::shared_ptr<CUDAPluggableAllocator> made(new CUDAPluggableAllocator);
  made->functions.alloc = std::move(alloc);
  made->functions.free = std::move(free);
  return made;
}

API void changeCurrentAllocator(const std::shared_ptr<CUDAAllocator>& allocator) {
  if (state.is_in_use) refuse();
  state.current = &static_cast<CUDAPluggableAllocator*>(allocator.get())->functions;
}

}  // namespace torch::cuda::CUDAPluggableAllocator

extern "C" API fake_torch::State* fake_torch_state() {
  return &torch::cuda::CUDAPluggableAllocator::state;
}

#ifndef FAKE_OLD_ABI
// 2.11.3
extern "C" API uint64_t aoti_torch_abi_version() {
  return uint64_t{2} << 56 | uint64_t{11} << 48 | uint64_t{3} << 40 | 7;
}
#endif

#endif
