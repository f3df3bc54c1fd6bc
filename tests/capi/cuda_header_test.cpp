// SPDX-License-Identifier: MIT OR Apache-2.0
// The wrappers of cachalot/cuda.h, without a header of CUDA and over the simulated device.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cachalot/cuda.h"
#include "sim_fixture.h"

namespace {

using cachalot_test::KiB;
using cachalot_test::MiB;
using cachalot_test::SimAllocator;
using cachalot_test::SimSetup;

CUstream_st* stream_of(uint64_t handle) {
  return reinterpret_cast<CUstream_st*>(static_cast<uintptr_t>(handle));
}
cachalot_address address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

constexpr uint64_t kOwn = 0x10;
constexpr uint64_t kOther = 0x20;

void* allocate(SimAllocator& with, uint64_t stream, size_t size = 2 * MiB) {
  void* pointer = nullptr;
  with.ok(cachalot_cuda_allocate(with.get(), &pointer, size, 0, stream_of(stream), with.error()));
  return pointer;
}

TEST(CudaHeader, BothNamesOfTheLegacyStreamMeanTheDefaultStream) {
  // Not inlined, so that the linker would have to choose between this and the per-thread one.
  cachalot_stream (*const volatile stream)(CUstream_st*) = cachalot_cuda_stream;
  EXPECT_EQ(stream(nullptr), 0U);
  EXPECT_EQ(stream(stream_of(1)), 0U);
}

TEST(CudaHeader, EveryOtherStreamKeepsItsHandle) {
  EXPECT_EQ(cachalot_cuda_stream(stream_of(2)), 2U);
  EXPECT_EQ(cachalot_cuda_stream(stream_of(kOwn)), kOwn);
}

TEST(CudaHeader, ABlockIsOfItsDeviceAndStream) {
  SimAllocator with(SimSetup{.device_count = 2});
  void* pointer = nullptr;
  with.ok(cachalot_cuda_allocate(with.get(), &pointer, 1000, 1, stream_of(kOwn), with.error()));
  const cachalot_block block = with.block(address_of(pointer));
  EXPECT_EQ(block.device, 1);
  EXPECT_EQ(block.stream, kOwn);
  EXPECT_EQ(block.requested, 1000U);
  with.ok(cachalot_cuda_free(with.get(), pointer, with.error()));
}

TEST(CudaHeader, APointerOfTheDriverIsTheSameBlock) {
  SimAllocator with;
  unsigned long long pointer = 0;
  with.ok(cachalot_cu_allocate(with.get(), &pointer, 1000, 0, stream_of(kOwn), with.error()));
  EXPECT_EQ(with.block(pointer).stream, kOwn);
  with.ok(cachalot_cu_free(with.get(), pointer, with.error()));
  EXPECT_EQ(with.layout(), "0: free 2M");
}

TEST(CudaHeader, PointersOfAnyTypeCanBeAllocated) {
  SimAllocator with;
  float* values = nullptr;
  with.ok(cachalot_cuda_allocate(with.get(), &values, sizeof(float), 0, nullptr, with.error()));
  EXPECT_EQ(with.block(address_of(values)).requested, sizeof(float));
  with.ok(cachalot_cuda_free(with.get(), values, with.error()));
}

TEST(CudaHeader, AFailedRequestLeavesTheResultAlone) {
  SimAllocator with(SimSetup{.capacity = 20 * MiB});
  unsigned long long number = 7;
  float value = 0;
  float* pointer = &value;
  EXPECT_EQ(cachalot_cu_allocate(with.get(), &number, 40 * MiB, 0, nullptr, nullptr),
            CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cachalot_cuda_allocate(with.get(), &pointer, 40 * MiB, 0, nullptr, with.error()),
            CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(with.error()->requested, 40 * MiB);
  EXPECT_EQ(number, 7U);
  EXPECT_EQ(pointer, &value);
}

TEST(CudaHeader, ARequestWithoutAResultIsRefused) {
  SimAllocator with;
  EXPECT_EQ(cachalot_cu_allocate(with.get(), nullptr, 1, 0, nullptr, nullptr),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(
      cachalot_cuda_allocate(with.get(), static_cast<void**>(nullptr), 1, 0, nullptr, nullptr),
      CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(
      cachalot_cuda_allocate(with.get(), static_cast<float**>(nullptr), 1, 0, nullptr, nullptr),
      CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cachalot::cuda::allocate<float>(with.get(), nullptr, 1, 0, nullptr, nullptr),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(with.layout(), "");
}

TEST(CudaHeader, ABlockFreedOnItsOwnStreamIsReusedAtOnceWithoutADriverCall) {
  SimAllocator with;
  void* pointer = allocate(with, kOwn);
  with.queue_work(kOwn);
  with.take_calls();
  with.ok(cachalot_cuda_free_async(with.get(), pointer, stream_of(kOwn), with.error()));
  EXPECT_EQ(with.take_calls(), "");
  EXPECT_EQ(allocate(with, kOwn), pointer);
  with.free(address_of(pointer));
}

TEST(CudaHeader, ABlockFreedOnAnotherStreamWaitsForTheWorkThere) {
  SimAllocator with;
  void* first = allocate(with, kOwn);
  with.queue_work(kOther);
  with.ok(cachalot_cuda_free_async(with.get(), first, stream_of(kOther), with.error()));
  void* second = allocate(with, kOwn);
  EXPECT_NE(second, first);
  with.finish_work(kOther);
  void* third = allocate(with, kOwn);
  EXPECT_EQ(third, first);
  with.free(address_of(second));
  with.free(address_of(third));
}

TEST(CudaHeader, ARecordedStreamIsWaitedForAfterAPlainFree) {
  SimAllocator with;
  void* pointer = allocate(with, kOwn);
  with.queue_work(kOther);
  with.ok(cachalot_cuda_record_stream(with.get(), pointer, stream_of(kOther), with.error()));
  with.ok(cachalot_cuda_free(with.get(), pointer, with.error()));
  EXPECT_EQ(with.layout(), "0: pending 2M, free 18M");
  with.finish_work(kOther);
}

TEST(CudaHeader, AFreeOnAStreamDoesNotWaitForIt) {
  SimAllocator with;
  void* pointer = allocate(with, kOwn);
  with.queue_work(kOther);
  with.ok(cachalot_cuda_free_on_stream(with.get(), pointer, stream_of(kOther), with.error()));
  EXPECT_EQ(with.layout(), "0: free 20M");
}

TEST(CudaHeader, FreeingNullDoesNothing) {
  SimAllocator with;
  with.ok(cachalot_cuda_free(with.get(), nullptr, with.error()));
  with.ok(cachalot_cuda_free_async(with.get(), nullptr, stream_of(kOther), with.error()));
  with.ok(cachalot_cuda_free_on_stream(with.get(), nullptr, stream_of(kOther), with.error()));
  with.ok(cachalot_cuda_record_stream(with.get(), nullptr, stream_of(kOther), with.error()));
  EXPECT_EQ(with.take_calls(), "");
}

TEST(CudaHeader, FreeingAgainIsRefused) {
  SimAllocator with;
  void* pointer = allocate(with, kOwn);
  with.ok(cachalot_cuda_free_async(with.get(), pointer, stream_of(kOwn), with.error()));
  EXPECT_EQ(cachalot_cuda_free_async(with.get(), pointer, stream_of(kOther), nullptr),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cachalot_cuda_free(with.get(), pointer, nullptr), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(with.layout(), "0: free 20M");
}

TEST(CudaHeader, APoolTakesTheRequestsOfItsStreamOnly) {
  SimAllocator with;
  const cachalot_pool_id id = SimAllocator::user_pool(1);
  with.ok(cachalot_cuda_pool_begin(with.get(), 0, id, stream_of(kOwn), with.error()));
  void* inside = allocate(with, kOwn);
  void* outside = allocate(with, kOther);
  EXPECT_EQ(with.block(address_of(inside)).pool.second, id.second);
  EXPECT_EQ(with.block(address_of(outside)).pool.second, 0U);
  with.free(address_of(inside));
  with.free(address_of(outside));
  with.leave_pool(id);
}

TEST(CudaHeader, AnArrayFreesItsBlockAndTheOneItOwnedBefore) {
  SimAllocator with;
  {
    cachalot::cuda::Array<float> values;
    with.ok(cachalot::cuda::allocate(with.get(), &values, 256, 0, stream_of(kOwn), with.error()));
    EXPECT_EQ(with.block(address_of(values.get())).requested, 256 * sizeof(float));
    with.ok(cachalot::cuda::allocate(with.get(), &values, 512, 0, stream_of(kOwn), with.error()));
    EXPECT_EQ(with.layout(), "0: free 1K, used 2K, free 2045K");
  }
  EXPECT_EQ(with.layout(), "0: free 2M");
}

TEST(CudaHeader, ASharedPointerCanFreeABlock) {
  SimAllocator with;
  std::shared_ptr<void> owner(allocate(with, kOwn, 1 * KiB), cachalot::cuda::Deleter(with.get()));
  EXPECT_EQ(with.layout(), "0: used 1K, free 2047K");
  owner.reset();
  EXPECT_EQ(with.layout(), "0: free 2M");
}

TEST(CudaHeader, AnArrayWhoseSizeInBytesDoesNotFitIsRefused) {
  SimAllocator with;
  cachalot::cuda::Array<double> values;
  const size_t count = SIZE_MAX / sizeof(double) + 2;  // 8 bytes, if the product wrapped
  EXPECT_EQ(cachalot::cuda::allocate(with.get(), &values, count, 0, nullptr, with.error()),
            CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(values.get(), nullptr);
  EXPECT_EQ(with.layout(), "");
}

}  // namespace
