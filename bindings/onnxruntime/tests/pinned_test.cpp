// SPDX-License-Identifier: MIT OR Apache-2.0
// Pinned memory, over the simulated device: nothing here is used by a GPU.
#include <cstring>

#include "memory.h"
#include "ort.h"

// Of the memory that a test makes by itself, where nothing fails. The library has its own.
void cachalot::ort::remember_failure(cachalot_allocator*, uint64_t, const Place&,
                                     const cachalot_error&) noexcept {}

namespace cachalot::ort_test {
namespace {

class OrtPinned : public testing::Test {
 protected:
  void SetUp() override {
    if (ort_version() < 23) GTEST_SKIP() << "ORT 1." << ort_version() << " does not say streams";
  }
  void TearDown() override {
    EXPECT_EQ(cachalot_ort_unregister(registered_, nullptr), CACHALOT_OK);
    EXPECT_EQ(cachalot_allocator_destroy(allocator_, nullptr), CACHALOT_OK);
  }

  // pinned_config: NULL is PyTorch's allocator of pinned memory.
  void make_allocator(const char* pinned_config = nullptr) {
    cachalot_driver* driver = nullptr;
    ASSERT_EQ(cachalot_driver_open("sim:1GiB", &driver, nullptr), CACHALOT_OK);
    cachalot_allocator_options options{};
    options.struct_size = sizeof options;
    options.driver = driver;
    options.config = "";
    options.pinned_config = pinned_config;
    cachalot_error error = CACHALOT_ERROR_INIT;
    EXPECT_EQ(cachalot_allocator_create(&options, &allocator_, &error), CACHALOT_OK)
        << error.message;
    cachalot_driver_destroy(driver);
  }
  cachalot_status try_to_register(cachalot_ort_allocator** out, cachalot_error* error) {
    cachalot_ort_options options{};
    options.struct_size = sizeof options;
    options.allocator = allocator_;
    return cachalot_ort_register_pinned(&options, out, error);
  }
  void register_it() {
    cachalot_error error = CACHALOT_ERROR_INIT;
    ASSERT_EQ(try_to_register(&registered_, &error), CACHALOT_OK) << error.message;
  }
  cachalot_pinned_stats stats() const {
    cachalot_pinned_stats stats{};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(cachalot_pinned_get_stats(allocator_, &stats, nullptr), CACHALOT_OK);
    return stats;
  }

  cachalot_allocator* allocator_ = nullptr;
  cachalot_ort_allocator* registered_ = nullptr;
};

TEST_F(OrtPinned, BlocksAreThoseOfTheAllocatorOfPinnedMemory) {
  make_allocator();
  register_it();
  OrtAllocator* const table = cachalot_ort_get_table(registered_);
  void* const block = table->Alloc(table, 1000);
  ASSERT_NE(block, nullptr);
  std::memset(block, 1, 1000);
  EXPECT_EQ(stats().active_bytes.current, 1024);
  EXPECT_EQ(cachalot_memory_allocated(allocator_, 0), 0U);
  table->Free(table, block);
  EXPECT_EQ(stats().active_bytes.current, 0);
  EXPECT_EQ(stats().allocated_bytes.current, 1024);
  void* const again = table->AllocOnStream(table, 600, nullptr);
  EXPECT_EQ(again, block);
  table->Free(table, again);
}

TEST_F(OrtPinned, OrtFindsItWhereItLooksForPinnedMemory) {
  make_allocator();
  register_it();
  const Environment environment;
  OrtMemoryInfo* place = nullptr;
  ASSERT_EQ(take(ort().CreateMemoryInfo("CudaPinned", OrtDeviceAllocator, 0, OrtMemTypeCPUOutput,
                                        &place)),
            "");
  OrtAllocator* shared = nullptr;
  EXPECT_EQ(take(ort().GetSharedAllocator(environment.get(), place, &shared)), "");
  ASSERT_NE(shared, nullptr);
  void* block = nullptr;
  EXPECT_EQ(take(ort().AllocatorAlloc(shared, 5000, &block)), "");
  EXPECT_EQ(stats().active_bytes.current, 8192);
  EXPECT_EQ(take(ort().AllocatorFree(shared, block)), "");
  EXPECT_EQ(stats().active_bytes.current, 0);
  ort().ReleaseMemoryInfo(place);
}

TEST_F(OrtPinned, TakesItsPlaceBesideTheOthersOncePerDevice) {
  const Host host;
  const Registered cpu(host);
  make_allocator();
  register_it();
  cachalot_ort_allocator* second = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(try_to_register(&second, &error), CACHALOT_ERROR_INVALID_STATE);
  EXPECT_EQ(second, nullptr);
}

TEST_F(OrtPinned, AFailureOfACacheLikeADevicesHasItsReport) {
  make_allocator("");
  register_it();
  ASSERT_EQ(cachalot_set_memory_limit(cachalot_pinned_allocator(allocator_), 0, 4 << 20, nullptr),
            CACHALOT_OK);
  OrtAllocator* const table = cachalot_ort_get_table(registered_);
  EXPECT_EQ(table->Alloc(table, 8 << 20), nullptr);
  cachalot_error error = CACHALOT_ERROR_INIT;
  size_t report = 0;
  ASSERT_EQ(cachalot_ort_last_failure(&error, nullptr, 0, &report), CACHALOT_OK);
  EXPECT_EQ(error.status, CACHALOT_ERROR_OUT_OF_HOST_MEMORY) << error.message;
  EXPECT_GT(report, 0U);
}

TEST_F(OrtPinned, OrtGivesTheStatisticsOfPinnedMemory) {
  make_allocator();
  register_it();
  OrtAllocator* const table = cachalot_ort_get_table(registered_);
  void* const block = table->Alloc(table, 3000);
  OrtKeyValuePairs* pairs = nullptr;
  ASSERT_EQ(take(table->GetStats(table, &pairs)), "");
  EXPECT_STREQ(ort().GetKeyValue(pairs, "Limit"), "-1");
  EXPECT_STREQ(ort().GetKeyValue(pairs, "InUse"), "4096");
  EXPECT_STREQ(ort().GetKeyValue(pairs, "TotalAllocated"), "4096");
  EXPECT_STREQ(ort().GetKeyValue(pairs, "NumArenaExtensions"), "1");
  ort().ReleaseKeyValuePairs(pairs);
  table->Free(table, block);
}

// ORT has a stream only with a GPU, so what is behind its table is asked.
TEST_F(OrtPinned, ABlockForACopyOnAStreamWaitsForTheStream) {
  make_allocator();
  const std::unique_ptr<ort::Memory> memory =
      ort::make_memory(ort::MemoryKind::kPinned, allocator_, 0);
  cachalot_address block = 0;
  ASSERT_EQ(memory->allocate(1000, 0, &block, nullptr), CACHALOT_OK);
  ASSERT_EQ(memory->free(block, nullptr), CACHALOT_OK);
  EXPECT_EQ(stats().active_requests.current, 0);
  ASSERT_EQ(memory->allocate(1000, 7, &block, nullptr), CACHALOT_OK);
  ASSERT_EQ(memory->free(block, nullptr), CACHALOT_OK);
  EXPECT_EQ(stats().active_requests.current, 1);
  cachalot_address next = 0;  // looks at the event, which has come
  ASSERT_EQ(memory->allocate(1000, 0, &next, nullptr), CACHALOT_OK);
  EXPECT_EQ(next, block);
  EXPECT_EQ(memory->free(next, nullptr), CACHALOT_OK);
}

TEST_F(OrtPinned, ADriverWithoutPinnedMemoryIsRefused) {
  cachalot_device_ops ops{};
  ops.struct_size = sizeof ops;
  ops.memory_info = [](void*, int32_t, uint64_t* free, uint64_t* total) -> int32_t {
    *free = *total = 1 << 30;
    return 0;
  };
  ops.allocate = [](void*, int32_t, uint64_t, cachalot_address* out) -> int32_t {
    *out = 0;
    return CACHALOT_DRIVER_OUT_OF_MEMORY;
  };
  ops.free = [](void*, int32_t, cachalot_address) -> int32_t { return 0; };
  cachalot_driver* driver = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  if (cachalot_driver_create_custom(&ops, 1, nullptr, nullptr, &driver, &error) != CACHALOT_OK)
    GTEST_FAIL() << error.message;
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.driver = driver;
  ASSERT_EQ(cachalot_allocator_create(&options, &allocator_, &error), CACHALOT_OK);
  cachalot_driver_destroy(driver);
  EXPECT_EQ(try_to_register(&registered_, &error), CACHALOT_ERROR_NOT_SUPPORTED);
  EXPECT_NE(std::string(error.message).find("pinned"), std::string::npos) << error.message;
}

}  // namespace
}  // namespace cachalot::ort_test
