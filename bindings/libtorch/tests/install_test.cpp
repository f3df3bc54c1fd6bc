// SPDX-License-Identifier: MIT OR Apache-2.0
// Which libtorch the library finds, if any, and what an installation gives it. An installation cannot be undone, so
// only one test installs.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "cachalot/libtorch.h"
#include "fake_torch.h"

namespace {

using fake_torch::Caught;

constexpr uint64_t kMiB = 1 << 20;

cachalot_allocator* make_allocator(int32_t release, const char* driver_name = "host:64MiB") {
  cachalot_driver* driver = nullptr;
  EXPECT_EQ(cachalot_driver_open(driver_name, &driver, nullptr), CACHALOT_OK);
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.driver = driver;
  options.release = release;
  options.config = "";
  cachalot_allocator* allocator = nullptr;
  EXPECT_EQ(cachalot_allocator_create(&options, &allocator, nullptr), CACHALOT_OK);
  cachalot_driver_destroy(driver);
  return allocator;
}

struct Result {
  cachalot_status status;
  std::string message;
};

Result install_over_cuda(cachalot_allocator* allocator, uint32_t flags = 0) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  const cachalot_status status = cachalot_libtorch_install(allocator, flags, &error);
  EXPECT_EQ(std::strchr(error.message, '\n'), nullptr) << error.message;
  return {status, error.message};
}

Result install(cachalot_allocator* allocator, uint32_t flags = 0) {
  return install_over_cuda(allocator, flags | CACHALOT_LIBTORCH_ANY_DRIVER);
}

void expect(const Result& result, cachalot_status status, const char* text) {
  EXPECT_EQ(result.status, status) << result.message;
  EXPECT_NE(result.message.find(text), std::string::npos) << result.message;
}

// For itself alone, as Java's and C#'s packages load it.
void* load(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << ::dlerror();
  return library;
}

// Allocators that libtorch could not use, and could not be rid of.
void check_refusals(cachalot_allocator* allocator) {
  expect(install(nullptr), CACHALOT_ERROR_INVALID_ARGUMENT, "allocator is NULL");
  expect(install(allocator, 12), CACHALOT_ERROR_INVALID_ARGUMENT, "flags has unknown bits: 0xc");
  // As what remains of one that was destroyed, or one of another copy of the library.
  alignas(std::max_align_t) char no_allocator[4096] = {};
  expect(install(reinterpret_cast<cachalot_allocator*>(no_allocator)),
         CACHALOT_ERROR_INVALID_ARGUMENT,
         "allocator is not an allocator: it was destroyed or never was one");
  expect(install_over_cuda(allocator), CACHALOT_ERROR_INVALID_ARGUMENT,
         "The allocator's driver is host, whose memory libtorch's kernels cannot use");
  cachalot_allocator* const simulated = make_allocator(CACHALOT_RELEASE_2_11, "sim:1GiB");
  expect(install(simulated), CACHALOT_ERROR_INVALID_ARGUMENT,
         "The allocator's driver is sim, whose memory nothing can use.");
  EXPECT_EQ(cachalot_allocator_destroy(simulated, nullptr), CACHALOT_OK);
}

// All at once: one succeeds.
void install_by_threads(cachalot_allocator* allocator) {
  std::vector<Result> results(8);
  std::vector<std::thread> threads;
  for (Result& result : results)
    threads.emplace_back([&] { result = install(allocator, CACHALOT_LIBTORCH_SAME_RELEASE); });
  for (std::thread& thread : threads) thread.join();
  const auto is_ok = [](const Result& result) { return result.status == CACHALOT_OK; };
  EXPECT_EQ(std::count_if(results.begin(), results.end(), is_ok), 1);
  for (const Result& result : results)
    if (!is_ok(result))
      expect(result, CACHALOT_ERROR_INVALID_STATE, "cachalot is libtorch's allocator already.");
}

// What the installed functions do, over an allocator that had no block yet.
void check_functions(cachalot_allocator* allocator, const fake_torch::State& torch) {
  const fake_torch::Functions& functions = *torch.current;
  functions.init(1);
  void* const block = functions.alloc(kMiB, 0, nullptr);
  ASSERT_NE(block, nullptr);
  std::memset(block, 1, kMiB);
  EXPECT_EQ(cachalot_memory_allocated(allocator, 0), kMiB);
  size_t size = 0;
  EXPECT_EQ(functions.base_alloc(block, &size), block);
  EXPECT_EQ(size, 2 * kMiB);

  functions.record_stream(block, reinterpret_cast<CUstream_st*>(7));
  functions.free(block, kMiB, 0, nullptr);
  EXPECT_EQ(cachalot_memory_allocated(allocator, 0), 0U);
  EXPECT_EQ(cachalot_memory_active(allocator, 0), kMiB) << "the free did not wait for the stream";
  functions.reset();
  EXPECT_EQ(cachalot_memory_reserved(allocator, 0), 0U);

  EXPECT_EQ(torch.catch_from([&] { functions.alloc(65 * kMiB, 0, nullptr); }),
            Caught::kOutOfMemory);
  functions.memory_fraction(0.5, 0);
  EXPECT_EQ(torch.catch_from([&] { functions.alloc(40 * kMiB, 0, nullptr); }),
            Caught::kOutOfMemory);
  functions.memory_fraction(1, 0);
  EXPECT_EQ(torch.catch_from([&] { functions.memory_fraction(2, 0); }), Caught::kError);
}

void check_pools(cachalot_allocator* allocator, const fake_torch::Functions& functions) {
  const fake_torch::PoolId id{0, 5};
  const cachalot_pool_id same{0, 5};
  CUstream_st* const routed = reinterpret_cast<CUstream_st*>(9);
  functions.begin_allocate_to_pool(0, id, [=](CUstream_st* stream) { return stream == routed; });
  void* const inside = functions.alloc(kMiB, 0, routed);
  void* const outside = functions.alloc(kMiB, 0, nullptr);
  functions.end_allocate_to_pool(0, id);
  const auto address = reinterpret_cast<cachalot_address>(inside);
  int32_t is_live = 0;
  EXPECT_EQ(cachalot_pool_has_live(allocator, 0, same, &address, 1, &is_live, nullptr),
            CACHALOT_OK);
  EXPECT_EQ(is_live, 1);
  functions.free(inside, kMiB, 0, routed);
  functions.free(outside, kMiB, 0, nullptr);
  functions.release_pool(0, id);
  functions.reset();
  EXPECT_EQ(cachalot_memory_reserved(allocator, 0), 0U);
}

TEST(Libtorch, KeepsItsOwnAllocatorWhereTheSwitchSaysSo) {
  cachalot_allocator* const allocator = make_allocator(CACHALOT_RELEASE_2_11);
  setenv("CACHALOT_DISABLE", "1", 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(install(allocator).status, CACHALOT_OK);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "cachalot: CACHALOT_DISABLE=1: libtorch keeps its own allocator\n");
  unsetenv("CACHALOT_DISABLE");
  expect(install(allocator), CACHALOT_ERROR_INVALID_STATE, "No libtorch is loaded: of the ");
  EXPECT_EQ(cachalot_allocator_destroy(allocator, nullptr), CACHALOT_OK);
}

TEST(Libtorch, IsFoundBySymbolsAndServedOrTheErrorSaysWhyNot) {
  cachalot_allocator* const allocator = make_allocator(CACHALOT_RELEASE_2_11);
  expect(install(allocator), CACHALOT_ERROR_INVALID_STATE, "No libtorch is loaded: of the ");

  void* const without_cuda = load(FAKE_WITHOUT_CUDA);
  expect(install(allocator), CACHALOT_ERROR_INVALID_STATE,
         "libtorch is loaded without CUDA (" FAKE_WITHOUT_CUDA "): of the ");
  ::dlclose(without_cuda);

  void* const incomplete = load(FAKE_INCOMPLETE);
  expect(install(allocator), CACHALOT_ERROR_NOT_SUPPORTED,
         "cachalot does not know libtorch 2.11.3 (" FAKE_INCOMPLETE
         "): it has no torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator::set_release_"
         "pool(std::function<void (int, std::pair<unsigned long long, unsigned long long>)>).");
  void* const without_errors = load(FAKE_WITHOUT_ERRORS);
  expect(install(allocator), CACHALOT_ERROR_INVALID_STATE, "2 libraries of libtorch are loaded, ");
  ::dlclose(incomplete);
  ASSERT_EQ(::dlopen(FAKE_INCOMPLETE, RTLD_NOW | RTLD_NOLOAD), nullptr) << "it is kept";
  expect(install(allocator), CACHALOT_ERROR_NOT_SUPPORTED, "it has no c10::Error::Error(");
  ::dlclose(without_errors);

  void* const old_abi = load(FAKE_OLD_ABI);
  expect(install(allocator), CACHALOT_ERROR_NOT_SUPPORTED,
         "libtorch (" FAKE_OLD_ABI ") was built with _GLIBCXX_USE_CXX11_ABI=0, the older layout");
  ::dlclose(old_abi);

  void* const library = load(FAKE_TORCH);
  auto* const torch =
      reinterpret_cast<fake_torch::State* (*)()>(::dlsym(library, "fake_torch_state"))();
  cachalot_libtorch_info info{};
  EXPECT_EQ(cachalot_libtorch_find(&info, nullptr), CACHALOT_ERROR_INVALID_ARGUMENT);
  info.struct_size = sizeof info;
  EXPECT_EQ(cachalot_libtorch_find(&info, nullptr), CACHALOT_OK);
  EXPECT_EQ(std::to_string(info.major) + "." + std::to_string(info.minor) + "." +
                std::to_string(info.patch) + " " + info.library,
            "2.11.3 " FAKE_TORCH);
  EXPECT_EQ(info.release, CACHALOT_RELEASE_2_11);
  check_refusals(allocator);
  EXPECT_EQ(torch->live_allocators, 0);

  cachalot_allocator* const newer = make_allocator(CACHALOT_RELEASE_2_15);
  expect(install(newer, CACHALOT_LIBTORCH_SAME_RELEASE), CACHALOT_ERROR_INVALID_ARGUMENT,
         "The allocator makes the decisions of PyTorch 2.15, and libtorch 2.11.3 (" FAKE_TORCH
         ") is loaded.");
  EXPECT_EQ(cachalot_allocator_destroy(newer, nullptr), CACHALOT_OK);
  torch->is_in_use = true;
  expect(install(allocator), CACHALOT_ERROR_INVALID_STATE,
         "libtorch 2.11.3 (" FAKE_TORCH
         ") keeps its allocator, as it does once CUDA is in use: \"It is in use\"");
  EXPECT_EQ(torch->current, nullptr);
  EXPECT_EQ(torch->live_allocators, 0);
  torch->is_in_use = false;
  ::dlclose(library);  // it stays nevertheless

  install_by_threads(allocator);
  expect(install(allocator), CACHALOT_ERROR_INVALID_STATE,
         "cachalot is libtorch's allocator already.");
  EXPECT_EQ(torch->live_allocators, 1);
  check_functions(allocator, *torch);
  check_pools(allocator, *torch->current);
}

}  // namespace
