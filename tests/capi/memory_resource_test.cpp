// SPDX-License-Identifier: MIT OR Apache-2.0
// The resources of cachalot/memory_resource.hpp without a header of CUDA. tests/toolkit has them under CCCL's.
#include "cachalot/memory_resource.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory_resource>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using cachalot::Allocator;
using cachalot::BadAlloc;
using cachalot::Driver;
using cachalot::Error;
using cachalot::PinnedResource;
using cachalot::StreamResource;
using cachalot::cuda::StreamAllocator;

constexpr uint64_t MiB = uint64_t{1} << 20;
constexpr uint64_t kOwn = 0x10;
constexpr uint64_t kOther = 0x20;

// cuda_per_thread_test.cpp has the same with another result.
using AnyResource = cachalot::cuda::Resource<>;
struct OnDevice {};
struct OnHost {};
using Resource = cachalot::cuda::Resource<OnDevice>;

// As cuda::stream_ref has its stream.
struct StreamRef {
  uint64_t handle = 0;
  CUstream_st* get() const { return reinterpret_cast<CUstream_st*>(handle); }
};

class MemoryResource : public testing::Test {
 protected:
  // The auditor looks at the allocator after each test, which has to have freed everything.
  ~MemoryResource() override {
    EXPECT_NO_THROW(allocator_.check());
    EXPECT_NO_THROW(allocator_.close());
  }

  cachalot_allocator* get() const { return allocator_.get(); }
  cachalot_block block_at(const void* memory) {
    cachalot_block block = {};
    block.struct_size = sizeof block;
    const auto address = reinterpret_cast<uintptr_t>(memory);
    EXPECT_EQ(cachalot_get_block(get(), address, &block, nullptr), CACHALOT_OK);
    return block;
  }
  void queue_work(cachalot_stream stream) {
    EXPECT_EQ(cachalot_sim_queue_work(driver_.get(), 0, stream, nullptr), CACHALOT_OK);
  }
  void finish_work(cachalot_stream stream) {
    EXPECT_EQ(cachalot_sim_finish_stream(driver_.get(), 0, stream, nullptr), CACHALOT_OK);
  }
  // What waits for streams after its free.
  int64_t waiting() {
    const cachalot_stats stats = allocator_.stats();
    return stats.active.all.current - stats.allocation.all.current;
  }

  Driver driver_ = Driver::sim();
  Allocator allocator_{{.driver = driver_.get(), .config = "", .no_caching = -1}};
};

class HostMemoryResource : public MemoryResource {
 protected:
  HostMemoryResource() {
    driver_ = Driver::host(64 * MiB);
    allocator_ = Allocator({.driver = driver_.get(), .config = "", .no_caching = -1});
  }
};

TEST_F(HostMemoryResource, ContainersOfTheStandardLibraryLiveInBlocks) {
  StreamResource resource(get());
  {
    std::pmr::vector<std::pmr::string> texts(&resource);
    for (int i = 0; i < 100; ++i) texts.emplace_back(200, 'x');
    EXPECT_EQ(texts.back(), std::string(200, 'x').c_str());
    EXPECT_EQ(allocator_.stats().allocation.all.current, 101);
  }
  EXPECT_EQ(allocator_.stats().allocation.all.current, 0);
}

TEST_F(HostMemoryResource, APoolOfTheStandardLibraryTakesItsChunksFromBlocks) {
  StreamResource resource(get());
  {
    std::pmr::unsynchronized_pool_resource pool(&resource);
    std::pmr::vector<int> values(1000, 7, &pool);
    EXPECT_EQ(values[999], 7);
    EXPECT_GT(allocator_.memory_allocated(), 0U);
  }
  EXPECT_EQ(allocator_.memory_allocated(), 0U);
}

TEST_F(HostMemoryResource, ContainersLiveInPinnedMemory) {
  PinnedResource resource(get());
  {
    std::pmr::vector<float> values(1000, 1.5F, &resource);
    EXPECT_EQ(values[999], 1.5F);
    EXPECT_EQ(cachalot_pinned_record_stream(get(), values.data(), 0, kOwn, nullptr), CACHALOT_OK);
  }
  EXPECT_EQ(allocator_.pinned_stats().allocations.allocated, 1);
}

TEST_F(HostMemoryResource, AContainerOfPlainPointersTakesTheStandardAllocator) {
  const StreamAllocator<int> alloc(get());
  std::vector<int, StreamAllocator<int>> values(1000, 7, alloc);
  std::vector<double, StreamAllocator<double>> others(StreamAllocator<double>{alloc});
  others.push_back(1.5);
  EXPECT_EQ(values[999], 7);
  EXPECT_EQ(allocator_.stats().allocation.all.current, 2);
  EXPECT_TRUE(alloc == others.get_allocator());
}

TEST_F(MemoryResource, AResourceIsEqualToItselfOnly) {
  const StreamResource one(get());
  const StreamResource other(get());
  const PinnedResource pinned(get());
  EXPECT_EQ(one, static_cast<const std::pmr::memory_resource&>(one));
  EXPECT_FALSE(one == other);
  EXPECT_FALSE(pinned == static_cast<const std::pmr::memory_resource&>(one));
}

TEST_F(MemoryResource, ABlockIsOfTheResourcesStreamOrOfTheOneThatIsNamed) {
  StreamResource resource(get(), 0, kOwn);
  void* own = resource.allocate(1000);
  void* other = resource.allocate_on(kOther, 1000);
  EXPECT_EQ(block_at(own).stream, kOwn);
  EXPECT_EQ(block_at(other).stream, kOther);
  resource.deallocate(own, 1000);
  resource.deallocate_on(kOther, other, 1000);
}

TEST_F(MemoryResource, AFreeOnAnotherStreamWaitsForItsWork) {
  StreamResource resource(get(), 0, kOwn);
  void* memory = resource.allocate(2 * MiB);
  queue_work(kOther);
  resource.deallocate_on(kOther, memory, 2 * MiB);
  EXPECT_EQ(waiting(), 1);
  finish_work(kOther);
  EXPECT_EQ(resource.allocate(2 * MiB), memory);
  queue_work(kOwn);
  resource.deallocate(memory, 2 * MiB);
  EXPECT_EQ(waiting(), 0);
}

TEST_F(MemoryResource, AFailedRequestThrowsWithAllNumbers) {
  StreamResource resource(get());
  try {
    (void)resource.allocate(uint64_t{1} << 40);
    FAIL() << "1 TiB of 80 GiB";
  } catch (const BadAlloc& error) {
    EXPECT_EQ(error.status(), CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(error.record().requested, uint64_t{1} << 40);
    EXPECT_EQ(std::string(error.what()).find("CUDA out of memory. "), 0U) << error.what();
  }
}

TEST_F(HostMemoryResource, OutOfMemoryIsABadAllocWhoeverIsAsked) {
  StreamResource blocks(get());
  PinnedResource pinned(get());
  EXPECT_THROW((void)blocks.allocate(65 * MiB), std::bad_alloc);
  EXPECT_THROW((void)blocks.allocate_on(kOther, 65 * MiB), std::bad_alloc);
  EXPECT_THROW((void)pinned.allocate(uint64_t{1} << 60), std::bad_alloc);
  EXPECT_THROW((void)StreamAllocator<char>(get()).allocate(65 * MiB), std::bad_alloc);
  EXPECT_THROW((void)Resource(get()).allocate(StreamRef{}, 65 * MiB), std::bad_alloc);
  EXPECT_THROW((void)Resource(get()).allocate_sync(65 * MiB), std::bad_alloc);
  EXPECT_THROW((void)blocks.allocate_on(kOther, 1, SIZE_MAX / 2 + 1), std::bad_alloc);
}

// Of an incomplete type.
struct Node {
  std::vector<Node, StreamAllocator<Node>> children;
};

TEST_F(HostMemoryResource, AClassMayHaveAContainerOfItself) {
  Node node{std::vector<Node, StreamAllocator<Node>>(StreamAllocator<Node>(get()))};
  node.children.push_back(Node{node.children});
  EXPECT_EQ(node.children.size(), 1U);
}

template <class R>
concept TakesTheNumberZeroAsStream = requires(R& resource) {
  resource.allocate(0, 4096);
};
template <class R>
concept TakesNullAsStream = requires(R& resource) {
  resource.allocate(nullptr, 4096);
};
static_assert(!TakesTheNumberZeroAsStream<Resource> && TakesNullAsStream<Resource>);

TEST_F(HostMemoryResource, MemoryMayHaveALargerAlignmentThanBlocks) {
  StreamResource blocks(get());
  PinnedResource pinned(get());
  for (std::pmr::memory_resource* resource : {static_cast<std::pmr::memory_resource*>(&blocks),
                                              static_cast<std::pmr::memory_resource*>(&pinned)}) {
    const std::vector<size_t> alignments = {1, 512, 1024, 4096, MiB};
    std::vector<void*> memory;
    for (const size_t alignment : alignments) {
      memory.push_back(resource->allocate(1000, alignment));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.back()) % alignment, 0U) << alignment;
      static_cast<char*>(memory.back())[999] = 'x';
    }
    for (size_t i = 0; i < memory.size(); ++i) resource->deallocate(memory[i], 1000, alignments[i]);
  }
  EXPECT_THROW((void)blocks.allocate_on(0, SIZE_MAX - 100, 4096), BadAlloc);
  EXPECT_EQ(allocator_.stats().allocation.all.current, 0);
  EXPECT_EQ(allocator_.pinned_stats().active_requests.current, 0);
}

TEST_F(MemoryResource, CudasContractRefusesALargerAlignmentThanThatOfBlocks) {
  Resource resource(get());
  try {
    (void)resource.allocate(StreamRef{}, 1000, 1024);
    FAIL() << "an alignment of 1024";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), CACHALOT_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(error.what(),
                 "an alignment of 1024 bytes was asked for, and blocks begin at multiples of 512");
  }
  EXPECT_THROW((void)resource.allocate_sync(1000, 1024), Error);
  EXPECT_EQ(allocator_.stats().allocation.all.allocated, 0);
  resource.deallocate(StreamRef{}, resource.allocate(StreamRef{}, 1000, 512), 1000, 512);
}

TEST_F(MemoryResource, NoBytesGiveNull) {
  Resource resource(get());
  EXPECT_EQ(resource.allocate(StreamRef{kOwn}, 0), nullptr);
  resource.deallocate(StreamRef{kOwn}, nullptr, 0);
  EXPECT_EQ(StreamAllocator<int>(get()).allocate(0), nullptr);
}

TEST_F(MemoryResource, CudasContractIsInTheOrderOfStreams) {
  Resource resource(get());
  void* memory = resource.allocate(StreamRef{kOwn}, 2 * MiB, 256);
  EXPECT_EQ(block_at(memory).stream, kOwn);
  queue_work(kOther);
  resource.deallocate(StreamRef{kOther}, memory, 2 * MiB, 256);
  EXPECT_EQ(waiting(), 1);
  finish_work(kOther);
  memory = resource.allocate(StreamRef{kOwn}.get(), 2 * MiB);
  queue_work(kOwn);
  resource.deallocate(StreamRef{kOwn}.get(), memory, 2 * MiB);
  EXPECT_EQ(waiting(), 0);
}

TEST_F(MemoryResource, MemoryOfNoStreamIsNotWhatAStreamMayStillUse) {
  Resource resource(get());
  void* used = resource.allocate(StreamRef{kOwn}, 2 * MiB);
  queue_work(kOwn);
  resource.deallocate(StreamRef{kOwn}, used, 2 * MiB);
  void* memory = resource.allocate_sync(2 * MiB);
  EXPECT_NE(memory, used);
  EXPECT_EQ(block_at(memory).stream, CACHALOT_STREAM_ALL);
  resource.deallocate_sync(memory, 2 * MiB);
  EXPECT_EQ(waiting(), 0);
  EXPECT_EQ(resource.allocate_sync(2 * MiB), memory);
  queue_work(kOther);
  resource.deallocate(StreamRef{kOther}, memory, 2 * MiB);
  EXPECT_EQ(waiting(), 1);
  finish_work(kOther);
}

TEST_F(MemoryResource, TheNamesBeforeCccl31MeanTheSame) {
  Resource resource(get());
  void* memory = resource.allocate(1000, 256);
  EXPECT_EQ(block_at(memory).stream, CACHALOT_STREAM_ALL);
  resource.deallocate(memory, 1000, 256);
  memory = resource.allocate_async(1000, 256, StreamRef{kOwn});
  EXPECT_EQ(block_at(memory).stream, kOwn);
  resource.deallocate_async(memory, 1000, 256, StreamRef{kOwn});
}

TEST_F(MemoryResource, ZeroIsTheLegacyDefaultStream) {
  AnyResource resource(get());
  void* (AnyResource::*const volatile allocate)(cachalot::cuda::StreamHandle, size_t, size_t) =
      &AnyResource::allocate;
  void* memory = (resource.*allocate)(nullptr, 1000, 256);
  EXPECT_EQ(block_at(memory).stream, 0U);
  resource.deallocate(nullptr, memory, 1000);
}

TEST_F(MemoryResource, CopiesFreeWhatEachOtherAllocated) {
  Resource resource(get());
  Resource copy = resource;
  EXPECT_EQ(copy, resource);
  EXPECT_FALSE(copy == Resource(get(), 1));
  EXPECT_FALSE(copy == Resource(nullptr));
  copy.deallocate(StreamRef{}, resource.allocate(StreamRef{}, 1000), 1000);
}

template <class R, class Property>
concept HasProperty = requires(const R& resource) {
  get_property(resource, Property{});
};
static_assert(HasProperty<Resource, OnDevice> && !HasProperty<Resource, OnHost>);
static_assert(HasProperty<cachalot::cuda::Resource<OnDevice, OnHost>, OnHost>);
static_assert(!HasProperty<cachalot::cuda::Resource<>, OnDevice>);

TEST_F(MemoryResource, AStandardAllocatorIsOfItsStreamOrOfTheOneThatIsNamed) {
  StreamAllocator<double> alloc(get(), 0, StreamRef{kOwn});
  double* own = alloc.allocate(100);
  EXPECT_EQ(block_at(own).stream, kOwn);
  EXPECT_EQ(block_at(own).requested, 100 * sizeof(double));
  double* other = alloc.allocate(100, StreamRef{kOther});
  EXPECT_EQ(block_at(other).stream, kOther);
  alloc.deallocate(own, 100);
  alloc.deallocate(other, 100, StreamRef{kOther});
  EXPECT_EQ(waiting(), 0);
  EXPECT_FALSE(alloc == StreamAllocator<double>(get(), 0, StreamRef{kOther}));
  EXPECT_FALSE(alloc == StreamAllocator<double>(get(), 1, StreamRef{kOwn}));
}

TEST_F(MemoryResource, AnArrayWhoseSizeInBytesDoesNotFitIsRefused) {
  StreamAllocator<double> alloc(get());
  EXPECT_THROW((void)alloc.allocate(SIZE_MAX / sizeof(double) + 2), BadAlloc);
}

// A pointer that is no plain one, as thrust::device_ptr.
template <class T>
struct Fancy {
  using element_type = T;
  explicit Fancy(T* pointer) : raw(pointer) {}
  T* operator->() const { return raw; }
  T* raw;
};

TEST_F(MemoryResource, APointerMayBeALibrarysOwn) {
  using Alloc = StreamAllocator<int, Fancy<int>>;
  using Rebound = std::allocator_traits<Alloc>::rebind_alloc<char>;
  static_assert(std::is_same_v<Rebound, StreamAllocator<char, Fancy<char>>>);
  Alloc alloc(get(), 0, StreamRef{kOwn});
  const Fancy<int> memory = alloc.allocate(10);
  EXPECT_EQ(block_at(memory.raw).requested, 10 * sizeof(int));
  alloc.deallocate(memory, 10);
  EXPECT_EQ(Rebound(alloc).stream().get(), StreamRef{kOwn}.get());
}

}  // namespace
