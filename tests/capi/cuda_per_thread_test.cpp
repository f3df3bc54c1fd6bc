// SPDX-License-Identifier: MIT OR Apache-2.0
// cachalot/cuda.h and cachalot/memory_resource.hpp in a program that is compiled for per-thread default streams.
// cuda_header_test.cpp and memory_resource_test.cpp, in the same program, are not: they must not take each other's
// functions.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include <cstdint>

#include "cachalot/cuda.h"
#include "cachalot/memory_resource.hpp"
#include "sim_fixture.h"

namespace {

using cachalot_test::SimAllocator;

constexpr uint64_t kPerThread = 2;
constexpr uint64_t kOther = 0x20;

CUstream_st* stream_of(uint64_t handle) {
  return reinterpret_cast<CUstream_st*>(static_cast<uintptr_t>(handle));
}

TEST(CudaPerThread, TheStreamZeroIsTheThreadsDefaultStream) {
  cachalot_stream (*const volatile stream)(CUstream_st*) = cachalot_cuda_stream;
  EXPECT_EQ(stream(nullptr), kPerThread);
  EXPECT_EQ(stream(stream_of(kPerThread)), kPerThread);
}

TEST(CudaPerThread, TheLegacyStreamIsStillReachedByItsName) {
  EXPECT_EQ(cachalot_cuda_stream(stream_of(1)), 0U);
}

TEST(CudaPerThread, EveryWrapperTakesZeroForTheThreadsDefaultStream) {
  SimAllocator with;
  const cachalot_pool_id pool = SimAllocator::user_pool(1);
  with.ok(cachalot_cuda_pool_begin(with.get(), 0, pool, nullptr, with.error()));
  unsigned long long block = 0;
  with.ok(cachalot_cu_allocate(with.get(), &block, 1000, 0, nullptr, with.error()));
  EXPECT_EQ(with.block(block).stream, kPerThread);
  EXPECT_EQ(with.block(block).pool.second, pool.second);
  with.ok(cachalot_cu_free_on_stream(with.get(), block, nullptr, with.error()));
  with.leave_pool(pool);
}

TEST(CudaPerThread, AResourceTakesZeroForTheThreadsDefaultStream) {
  using Resource = cachalot::cuda::Resource<>;
  using cachalot::cuda::StreamHandle;
  SimAllocator with;
  Resource resource(with.get());
  // Not inlined, so that the linker would have to choose between this and the other one.
  void* (Resource::*const volatile allocate)(StreamHandle, size_t, size_t) = &Resource::allocate;
  void* memory = (resource.*allocate)(nullptr, 1000, 256);
  EXPECT_EQ(with.block(reinterpret_cast<uintptr_t>(memory)).stream, kPerThread);
  resource.deallocate(nullptr, memory, 1000);
  EXPECT_EQ(with.layout(), "0: free 2M");
}

TEST(CudaPerThread, ABlockOfAnotherStreamFreedOnStreamZeroWaitsForTheThreadsWork) {
  SimAllocator with;
  void* pointer = nullptr;
  with.ok(cachalot_cuda_allocate(with.get(), &pointer, 1000, 0, stream_of(kOther), with.error()));
  with.queue_work(kPerThread);
  with.ok(cachalot_cuda_free_async(with.get(), pointer, nullptr, with.error()));
  EXPECT_EQ(with.layout(), "0: pending 1K, free 2047K");
  with.finish_work(kPerThread);
}

TEST(CudaPerThread, TheDefaultStreamsOfThreadAndProcessAreTwo) {
  SimAllocator with;
  const cachalot_address block = with.allocate(1000, 0);
  with.queue_work(kPerThread);
  with.ok(cachalot_cu_record_stream(with.get(), block, nullptr, with.error()));
  with.free(block);
  EXPECT_EQ(with.layout(), "0: pending 1K, free 2047K");
  with.finish_work(kPerThread);
}

}  // namespace
