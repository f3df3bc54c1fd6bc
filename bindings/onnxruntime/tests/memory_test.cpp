// SPDX-License-Identifier: MIT OR Apache-2.0
// What sessions do with their memory, seen in cachalot's statistics.
#include <map>
#include <thread>

#include "ort.h"

namespace cachalot::ort_test {
namespace {

TEST(Memory, EachRunFreesWhatItAskedFor) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session session(environment);
  const uint64_t weights = registered.info().live_blocks;
  for (const int64_t width : {32, 160, 96}) {
    const uint64_t before = registered.info().requests;
    EXPECT_EQ(session.run(64, width), "");
    EXPECT_GT(registered.info().requests, before + 200);
    EXPECT_EQ(registered.info().live_blocks, weights);
  }
  EXPECT_EQ(host.stats().allocation.all.current, static_cast<int64_t>(weights));
}

TEST(Memory, TheAnswerIsThatOfOrtsOwnArena) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session ours(environment);
  const Session theirs(environment, {.uses_shared_allocator = false});
  std::vector<float> map;
  std::vector<float> expected;
  ASSERT_EQ(ours.run(96, 160, &map), "");
  ASSERT_EQ(theirs.run(96, 160, &expected), "");
  EXPECT_EQ(map.size(), 96U * 160U);
  EXPECT_EQ(map, expected);
}

// Weights share no segment with a run, so all that a run needed can go back.
TEST(Memory, ATrimAfterARunLeavesNothingButWeights) {
  if (ort_version() < 18) GTEST_SKIP() << "ORT 1." << ort_version() << " has no Reserve";
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session session(environment);
  EXPECT_GT(registered.info().reserves, 100U);
  const auto trim = [&] {
    EXPECT_EQ(cachalot_trim(host.get(), 0, 0, 0, nullptr, nullptr), CACHALOT_OK);
  };
  trim();
  const uint64_t weights = host.reserved();
  EXPECT_EQ(session.run(640, 640), "");
  EXPECT_GT(host.reserved(), weights + (64U << 20));
  trim();
  EXPECT_EQ(host.reserved(), weights);
}

TEST(Memory, RequestsBelongToTheTenantOfTheThreadThatRuns) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  cachalot_tenant_options options{};
  options.struct_size = sizeof options;
  options.name = "detection";
  cachalot_tenant* tenant = nullptr;
  ASSERT_EQ(cachalot_tenant_create(host.get(), &options, &tenant, nullptr), CACHALOT_OK);
  {
    ASSERT_EQ(cachalot_tenant_begin(tenant, nullptr), CACHALOT_OK);
    const Session session(environment, {.threads = 4});
    EXPECT_EQ(session.run(320, 320), "");
    ASSERT_EQ(cachalot_tenant_end(tenant, nullptr), CACHALOT_OK);
    cachalot_tenant_stats stats{};
    stats.struct_size = sizeof stats;
    ASSERT_EQ(cachalot_get_tenant_stats(tenant, 0, &stats, nullptr), CACHALOT_OK);
    // All of them: none is made on the threads that compute.
    EXPECT_EQ(static_cast<uint64_t>(stats.allocation.allocated), registered.info().requests);
    EXPECT_EQ(session.run(320, 320), "");
    ASSERT_EQ(cachalot_get_tenant_stats(tenant, 0, &stats, nullptr), CACHALOT_OK);
    EXPECT_LT(static_cast<uint64_t>(stats.allocation.allocated), registered.info().requests);
  }
  EXPECT_EQ(cachalot_tenant_destroy(tenant, nullptr), CACHALOT_OK);
}

TEST(Memory, ManyThreadsRunOneSession) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session shared(environment, {.has_memory_pattern = true});
  const Session mixed(environment);
  const uint64_t weights = registered.info().live_blocks;
  std::vector<std::thread> threads;
  std::vector<std::string> messages(8);
  for (size_t i = 0; i < messages.size(); i++) {
    threads.emplace_back([&, i] {
      for (int64_t n = 1; n <= 4; n++)
        messages[i] +=
            (i % 4 == 0 ? mixed : shared).run(32 * n, 32 * static_cast<int64_t>(1 + i % 3));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : messages) EXPECT_EQ(message, "");
  EXPECT_EQ(registered.info().live_blocks, weights);
  EXPECT_EQ(registered.info().failures, 0U);
}

TEST(Memory, ParallelExecutionWorks) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session session(environment, {.is_parallel = true});
  EXPECT_EQ(session.run(64, 64), "");
}

// A block as a program gets it through ORT.
TEST(Memory, BlocksAreAlignedAndCanBeWritten) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session session(environment);
  OrtMemoryInfo* memory = nullptr;
  ASSERT_EQ(take(ort().CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory)), "");
  OrtAllocator* wrapper = nullptr;
  ASSERT_EQ(take(ort().CreateAllocator(session.get(), memory, &wrapper)), "");
  const uint64_t live = registered.info().live_blocks;
  for (const size_t size : {1U, 63U, 100U, 5000U, 3U << 20}) {
    void* block = nullptr;
    ASSERT_EQ(take(ort().AllocatorAlloc(wrapper, size, &block)), "");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0U);
    static_cast<char*>(block)[size - 1] = 1;
    EXPECT_EQ(registered.info().live_blocks, live + 1);
    ASSERT_EQ(take(ort().AllocatorFree(wrapper, block)), "");
  }
  void* none = &memory;
  ASSERT_EQ(take(ort().AllocatorAlloc(wrapper, 0, &none)), "");
  EXPECT_EQ(none, nullptr);
  ASSERT_EQ(take(ort().AllocatorFree(wrapper, nullptr)), "");
  EXPECT_EQ(registered.info().live_blocks, live);
  ort().ReleaseAllocator(wrapper);
  ort().ReleaseMemoryInfo(memory);
}

TEST(Memory, TensorsOfTheProgramsOwnCanLieInIt) {
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const int64_t shape = 1000;
  OrtValue* tensor = nullptr;
  ASSERT_EQ(take(ort().CreateTensorAsOrtValue(registered.table(), &shape, 1,
                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &tensor)),
            "");
  EXPECT_EQ(host.stats().requested_bytes.all.current, 4000);
  ort().ReleaseValue(tensor);
  EXPECT_EQ(registered.info().live_blocks, 0U);
  EXPECT_EQ(cachalot_ort_get_table(nullptr), nullptr);
}

TEST(Memory, OrtGivesCachalotsStatistics) {
  if (ort_version() < 23) GTEST_SKIP() << "ORT 1." << ort_version() << " has no statistics";
  const Host host;
  const Environment environment;
  const Registered registered(host);
  const Session session(environment);
  ASSERT_EQ(session.run(64, 64), "");
  OrtMemoryInfo* memory = nullptr;
  ASSERT_EQ(take(ort().CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory)), "");
  OrtAllocator* wrapper = nullptr;
  ASSERT_EQ(take(ort().CreateAllocator(session.get(), memory, &wrapper)), "");
  OrtKeyValuePairs* pairs = nullptr;
  ASSERT_EQ(take(ort().AllocatorGetStats(wrapper, &pairs)), "");
  const auto value = [pairs](const char* name) {
    const char* const text = ort().GetKeyValue(pairs, name);
    return text == nullptr ? "none" : std::string(text);
  };
  const cachalot_stats stats = host.stats();
  EXPECT_EQ(value("Limit"), "-1");
  EXPECT_EQ(value("InUse"), std::to_string(stats.allocated_bytes.all.current));
  EXPECT_EQ(value("TotalAllocated"), std::to_string(stats.reserved_bytes.all.current));
  EXPECT_EQ(value("MaxInUse"), std::to_string(stats.allocated_bytes.all.peak));
  EXPECT_EQ(value("NumAllocs"), std::to_string(registered.info().requests));
  EXPECT_EQ(value("NumReserves"), std::to_string(registered.info().reserves));
  EXPECT_EQ(value("NumArenaExtensions"), std::to_string(stats.num_device_alloc));
  EXPECT_EQ(value("NumArenaShrinkages"), std::to_string(stats.num_device_free));
  EXPECT_GT(std::stoll(value("MaxAllocSize")), 64 * 64 * 4);
  ort().ReleaseKeyValuePairs(pairs);
  ort().ReleaseAllocator(wrapper);
  ort().ReleaseMemoryInfo(memory);
}

}  // namespace
}  // namespace cachalot::ort_test
