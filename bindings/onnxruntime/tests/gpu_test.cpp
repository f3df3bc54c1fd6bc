// SPDX-License-Identifier: MIT OR Apache-2.0
// The CUDA provider on cachalot's memory, of the device and pinned. Needs a GPU and an ORT with that provider
// (CACHALOT_ORT_TEST_LIBRARY); skipped elsewhere.
#include <cstdio>

#include "ort.h"

namespace cachalot::ort_test {
namespace {

bool has_cuda_provider() {
  char** names = nullptr;
  int count = 0;
  EXPECT_EQ(take(ort().GetAvailableProviders(&names, &count)), "");
  bool found = false;
  for (int i = 0; i < count; i++) found |= std::string(names[i]) == "CUDAExecutionProvider";
  EXPECT_EQ(take(ort().ReleaseAvailableProviders(names, count)), "");
  return found;
}

// The session's memory for copies, to be released.
OrtAllocator* pinned_memory_of(const Session& session) {
  OrtMemoryInfo* place = nullptr;
  EXPECT_EQ(take(ort().CreateMemoryInfo("CudaPinned", OrtDeviceAllocator, 0, OrtMemTypeCPUOutput,
                                        &place)),
            "");
  OrtAllocator* memory = nullptr;
  EXPECT_EQ(take(ort().CreateAllocator(session.get(), place, &memory)), "");
  ort().ReleaseMemoryInfo(place);
  return memory;
}

class OrtOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cachalot_driver_open("cuda", &driver_, nullptr) != CACHALOT_OK) GTEST_SKIP() << "no GPU";
    if (!has_cuda_provider()) GTEST_SKIP() << "this ONNX Runtime has no CUDA provider";
    cachalot_allocator_options options{};
    options.struct_size = sizeof options;
    options.driver = driver_;
    ASSERT_EQ(cachalot_allocator_create(&options, &allocator_, nullptr), CACHALOT_OK);
  }
  void TearDown() override {
    cachalot_error error = CACHALOT_ERROR_INIT;
    EXPECT_EQ(cachalot_allocator_destroy(allocator_, &error), CACHALOT_OK) << error.message;
    cachalot_driver_destroy(driver_);
  }

  using Register = decltype(cachalot_ort_register_cuda);
  cachalot_ort_allocator* register_by(Register* register_memory) {
    cachalot_ort_options options{};
    options.struct_size = sizeof options;
    options.allocator = allocator_;
    cachalot_ort_allocator* registered = nullptr;
    cachalot_error error = CACHALOT_ERROR_INIT;
    EXPECT_EQ(register_memory(&options, &registered, &error), CACHALOT_OK) << error.message;
    return registered;
  }
  static cachalot_ort_info info_of(const cachalot_ort_allocator* registered) {
    cachalot_ort_info info{};
    info.struct_size = sizeof info;
    EXPECT_EQ(cachalot_ort_get_info(registered, &info, nullptr), CACHALOT_OK);
    return info;
  }

  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
};

TEST_F(OrtOnGpu, AnswersAreThoseOfOrtsOwnArenas) {
  const Environment environment;
  cachalot_ort_allocator* const cuda = register_by(cachalot_ort_register_cuda);
  cachalot_ort_allocator* const pinned = register_by(cachalot_ort_register_pinned);
  {
    const Session theirs(environment, {.uses_shared_allocator = false, .is_on_gpu = true});
    const Session ours(environment, {.is_on_gpu = true});
    OrtAllocator* const ours_pinned = pinned_memory_of(ours);
    for (int64_t size = 64; size <= 640; size += 64) {
      std::vector<float> expected;
      std::vector<float> answer;
      ASSERT_EQ(theirs.run(size, 2 * size, &expected), "");
      ASSERT_EQ(ours.run(size, 2 * size, &answer), "");
      EXPECT_EQ(answer, expected) << size;
      ASSERT_EQ(ours.run(size, 2 * size, &answer, ours_pinned), "");
      EXPECT_EQ(answer, expected) << size << ", from pinned memory";
    }
    EXPECT_GT(info_of(cuda).requests, 0U);
    EXPECT_GE(info_of(pinned).requests, 10U);
    ort().ReleaseAllocator(ours_pinned);
    std::printf("requests: %llu for the device, %llu for pinned memory\n",
                static_cast<unsigned long long>(info_of(cuda).requests),
                static_cast<unsigned long long>(info_of(pinned).requests));
  }
  EXPECT_EQ(cachalot_ort_unregister(pinned, nullptr), CACHALOT_OK);
  EXPECT_EQ(cachalot_ort_unregister(cuda, nullptr), CACHALOT_OK);
}

}  // namespace
}  // namespace cachalot::ort_test
