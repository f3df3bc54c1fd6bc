// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions for CUDA memory, called as ORT's provider calls them: by address, a free of weights
// followed by emptying the cache, NULL for a failure. Over the simulated device.
#include <cstdlib>
#include <map>
#include <thread>

#include "ort.h"

namespace cachalot::ort_test {
namespace {

class Sim {
 public:
  Sim() {
    cachalot_driver* driver = nullptr;
    EXPECT_EQ(cachalot_driver_open("sim:1GiB", &driver, nullptr), CACHALOT_OK);
    cachalot_allocator_options options{};
    options.struct_size = sizeof options;
    options.driver = driver;
    options.config = "";
    EXPECT_EQ(cachalot_allocator_create(&options, &allocator_, nullptr), CACHALOT_OK);
    cachalot_driver_destroy(driver);
  }
  ~Sim() { EXPECT_EQ(cachalot_allocator_destroy(allocator_, nullptr), CACHALOT_OK); }
  Sim(const Sim&) = delete;
  cachalot_allocator* get() const { return allocator_; }
  uint64_t reserved() const { return cachalot_memory_reserved(allocator_, 0); }

 private:
  cachalot_allocator* allocator_ = nullptr;
};

// What the provider makes of its options.
struct Provider {
  void* (*alloc)(size_t) = nullptr;
  void (*free)(void*) = nullptr;
  void (*empty_cache)() = nullptr;

  Provider() {
    std::map<std::string, uintptr_t> options;
    const char* name = nullptr;
    const char* value = nullptr;
    for (size_t i = 0; cachalot_ort_external_option_at(i, &name, &value) == CACHALOT_OK; i++) {
      char* end = nullptr;
      options[name] = std::strtoull(value, &end, 10);
      EXPECT_EQ(*end, '\0') << value;
    }
    EXPECT_EQ(options.size(), 3U);
    alloc = reinterpret_cast<void* (*)(size_t)>(options["gpu_external_alloc"]);
    free = reinterpret_cast<void (*)(void*)>(options["gpu_external_free"]);
    empty_cache = reinterpret_cast<void (*)()>(options["gpu_external_empty_cache"]);
  }
};

std::string unregister() {
  cachalot_error error = CACHALOT_ERROR_INIT;
  return cachalot_ort_external_unregister(&error) == CACHALOT_OK ? "" : error.message;
}

TEST(External, AllocatesFreesAndEmptiesTheCache) {
  const Sim sim;
  const Provider provider;
  ASSERT_EQ(cachalot_ort_external_register(sim.get(), 0, 0, nullptr), CACHALOT_OK);
  EXPECT_EQ(provider.alloc(0), nullptr);
  provider.free(nullptr);
  void* const block = provider.alloc(5 << 20);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 256, 0U);  // as cudaMalloc aligns
  EXPECT_EQ(cachalot_memory_allocated(sim.get(), 0), 5U << 20);
  provider.free(block);
  EXPECT_EQ(cachalot_memory_allocated(sim.get(), 0), 0U);
  EXPECT_GT(sim.reserved(), 0U);
  provider.empty_cache();
  EXPECT_EQ(sim.reserved(), 0U);
  EXPECT_EQ(unregister(), "");
}

TEST(External, GivesNullOnFailureAndTellsTheThreadWhy) {
  const Sim sim;
  const Provider provider;
  ASSERT_EQ(cachalot_ort_external_register(sim.get(), 0, 0, nullptr), CACHALOT_OK);
  cachalot_ort_forget_failure();
  EXPECT_EQ(provider.alloc(size_t{2} << 30), nullptr);
  cachalot_error error = CACHALOT_ERROR_INIT;
  ASSERT_EQ(cachalot_ort_last_failure(&error, nullptr, 0, nullptr), CACHALOT_OK);
  EXPECT_EQ(error.status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(error.requested, uint64_t{2} << 30);
  EXPECT_EQ(unregister(), "");
}

TEST(External, WithoutAnAllocatorThereIsNoMemory) {
  const Provider provider;
  cachalot_ort_forget_failure();
  EXPECT_EQ(provider.alloc(100), nullptr);
  cachalot_error error = CACHALOT_ERROR_INIT;
  ASSERT_EQ(cachalot_ort_last_failure(&error, nullptr, 0, nullptr), CACHALOT_OK);
  EXPECT_EQ(error.status, CACHALOT_ERROR_INVALID_STATE);
  provider.empty_cache();
  EXPECT_EQ(unregister(), "No allocator is registered for ONNX Runtime's CUDA memory.");
}

TEST(External, EndsOnlyWithoutLiveBlocks) {
  const Sim sim;
  const Provider provider;
  ASSERT_EQ(cachalot_ort_external_register(sim.get(), 0, 0, nullptr), CACHALOT_OK);
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(cachalot_ort_external_register(sim.get(), 0, 0, &error), CACHALOT_ERROR_INVALID_STATE);
  void* const block = provider.alloc(100);
  EXPECT_EQ(unregister(),
            "ONNX Runtime has 1 live blocks of CUDA memory: close its sessions first.");
  testing::internal::CaptureStderr();
  provider.free(static_cast<char*>(block) + 4);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("gpu_external_free"), std::string::npos);
  EXPECT_NE(unregister(), "");  // it is still there
  provider.free(block);
  EXPECT_EQ(unregister(), "");
  testing::internal::CaptureStderr();
  provider.free(block);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "cachalot: gpu_external_free: no allocator is registered\n");
}

TEST(External, FreeingABlockOfTheProgramsOwnDoesNotEndTheRegistration) {
  const Sim sim;
  const Provider provider;
  ASSERT_EQ(cachalot_ort_external_register(sim.get(), 0, 0, nullptr), CACHALOT_OK);
  cachalot_address own = 0;
  ASSERT_EQ(cachalot_allocate(sim.get(), 1000, 0, 0, &own, nullptr), CACHALOT_OK);
  provider.free(reinterpret_cast<void*>(own));
  void* const block = provider.alloc(1000);
  EXPECT_NE(block, nullptr);
  EXPECT_NE(unregister(), "");
  provider.free(block);
  EXPECT_EQ(unregister(), "");
}

TEST(External, ChecksItsArguments) {
  const Sim sim;
  EXPECT_EQ(cachalot_ort_external_register(nullptr, 0, 0, nullptr),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cachalot_ort_external_register(sim.get(), 1, 0, nullptr),
            CACHALOT_ERROR_INVALID_ARGUMENT);
  const char* name = nullptr;
  EXPECT_EQ(cachalot_ort_external_option_at(0, &name, nullptr), CACHALOT_ERROR_INVALID_ARGUMENT);
}

// Work on one stream may still use what was freed there, so another one does not get it.
TEST(External, BlocksAreThoseOfTheThreadsStream) {
  const Sim sim;
  const Provider provider;
  ASSERT_EQ(cachalot_ort_external_register(sim.get(), 0, 7, nullptr), CACHALOT_OK);
  const auto stream_of_next = [&](void** block) {
    *block = provider.alloc(1000);
    cachalot_block known{};
    known.struct_size = sizeof known;
    EXPECT_EQ(
        cachalot_get_block(sim.get(), reinterpret_cast<cachalot_address>(*block), &known, nullptr),
        CACHALOT_OK);
    provider.free(*block);
    return known.stream;
  };
  void* first = nullptr;
  EXPECT_EQ(stream_of_next(&first), 7U);
  void* other = nullptr;
  std::thread([&] {
    cachalot_ort_external_set_stream(0, 9);
    EXPECT_EQ(stream_of_next(&other), 9U);
    cachalot_ort_external_unset_stream();
    void* block = nullptr;
    EXPECT_EQ(stream_of_next(&block), 7U);
    EXPECT_EQ(block, first);
  }).join();
  EXPECT_NE(other, first);
  provider.empty_cache();
  EXPECT_EQ(unregister(), "");
}

TEST(External, ManyThreadsAllocateAndFreeEachOthersBlocks) {
  const Sim sim;
  const Provider provider;
  ASSERT_EQ(cachalot_ort_external_register(sim.get(), 0, 0, nullptr), CACHALOT_OK);
  constexpr size_t kThreads = 8;
  std::vector<std::vector<void*>> blocks(kThreads);
  const auto on_threads = [&](auto work) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; i++) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();
  };
  on_threads([&](size_t i) {
    for (size_t n = 0; n < 500; n++) blocks[i].push_back(provider.alloc(1 + n * 37 % 50000));
  });
  on_threads([&](size_t i) {
    for (void* block : blocks[(i + 1) % kThreads]) provider.free(block);
    provider.empty_cache();
  });
  EXPECT_EQ(sim.reserved(), 0U);
  EXPECT_EQ(unregister(), "");
}

}  // namespace
}  // namespace cachalot::ort_test
