// SPDX-License-Identifier: MIT OR Apache-2.0
// libtorch on cachalot without Python: a program that is linked to libtorch, and calls bindings/libtorch. On a GPU, or
// over the runtime of host_runtime.cpp with CACHALOT_DRIVER=host:1GiB; what needs kernels is skipped there.
#include "cachalot/libtorch.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/MemPool.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>
#include <torch/headeronly/version.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "torch.h"

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;
namespace pluggable = torch::cuda::CUDAPluggableAllocator;

constexpr int64_t kMiB = 1 << 20;

// ---- The types of bindings/libtorch are those of libtorch's headers

using cachalot::libtorch::Functions;
using pluggable::CUDAPluggableAllocator;

static_assert(
    std::is_same_v<decltype(Functions::create), decltype(&pluggable::createCustomAllocator)>);
static_assert(std::is_same_v<decltype(Functions::change_current),
                             decltype(&pluggable::changeCurrentAllocator)>);

template <class Argument>
constexpr bool are_alike(void (CUDAPluggableAllocator::*)(Argument), void (*)(void*, Argument)) {
  return true;
}

static_assert(are_alike(&CUDAPluggableAllocator::set_init_fn, decltype(Functions::set_init){}));
static_assert(are_alike(&CUDAPluggableAllocator::set_reset_fn, decltype(Functions::set_reset){}));
static_assert(are_alike(&CUDAPluggableAllocator::set_memory_fraction_fn,
                        decltype(Functions::set_memory_fraction){}));
static_assert(are_alike(&CUDAPluggableAllocator::set_base_alloc_fn,
                        decltype(Functions::set_base_alloc){}));
static_assert(are_alike(&CUDAPluggableAllocator::set_record_stream_fn,
                        decltype(Functions::set_record_stream){}));
static_assert(are_alike(&CUDAPluggableAllocator::set_begin_allocate_to_pool,
                        decltype(Functions::set_begin_allocate_to_pool){}));
static_assert(are_alike(&CUDAPluggableAllocator::set_end_allocate_to_pool_fn,
                        decltype(Functions::set_end_allocate_to_pool){}));
static_assert(are_alike(&CUDAPluggableAllocator::set_release_pool,
                        decltype(Functions::set_release_pool){}));

// ---- The allocator of this process

std::string error_of(cachalot_status status, const cachalot_error& error) {
  return status == CACHALOT_OK ? "" : error.message;
}

cachalot_allocator* make_allocator(int32_t release) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.release = release;
  options.config = "";
  cachalot_allocator* made = nullptr;
  EXPECT_EQ(error_of(cachalot_allocator_create(&options, &made, &error), error), "");
  return made;
}

bool is_on_gpu() { return std::getenv("CACHALOT_DRIVER") == nullptr; }

uint32_t driver_flag() { return is_on_gpu() ? 0 : CACHALOT_LIBTORCH_ANY_DRIVER; }

// libtorch's, by the first call.
cachalot_allocator* installed() {
  static cachalot_allocator* const only = [] {
    EXPECT_TRUE(at::hasCUDA()) << "a device is found, which is no use of CUDA";
    cachalot_error error = CACHALOT_ERROR_INIT;
    cachalot_libtorch_info info{};
    info.struct_size = sizeof info;
    EXPECT_EQ(error_of(cachalot_libtorch_find(&info, &error), error), "");
    EXPECT_EQ(info.major, TORCH_VERSION_MAJOR);
    EXPECT_EQ(info.minor, TORCH_VERSION_MINOR);
    EXPECT_EQ(info.patch, TORCH_VERSION_PATCH);
    cachalot_allocator* const made = make_allocator(info.release);
    const uint32_t same_release = info.release != 0 ? CACHALOT_LIBTORCH_SAME_RELEASE : 0;
    EXPECT_EQ(
        error_of(cachalot_libtorch_install(made, same_release | driver_flag(), &error), error), "");
    return made;
  }();
  return only;
}

at::Tensor bytes(int64_t count) {
  return at::empty({count}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
}

int64_t allocated() { return static_cast<int64_t>(cachalot_memory_allocated(installed(), 0)); }
int64_t active() { return static_cast<int64_t>(cachalot_memory_active(installed(), 0)); }
int64_t reserved() { return static_cast<int64_t>(cachalot_memory_reserved(installed(), 0)); }

cachalot_stats stats() {
  cachalot_stats numbers{};
  numbers.struct_size = sizeof numbers;
  EXPECT_EQ(cachalot_get_stats(installed(), 0, &numbers, nullptr), CACHALOT_OK);
  return numbers;
}

// What libtorch's exception says, without its backtrace.
template <class Exception>
std::string text_of(const std::function<void()>& function) {
  try {
    function();
    return "no exception";
  } catch (const Exception& exception) {
    return static_cast<const c10::Error&>(exception).what_without_backtrace();
  }
}

bool begins(const std::string& text, const std::string& part) { return text.rfind(part, 0) == 0; }

// Each test begins without a block and without a cache.
class Libtorch : public testing::Test {
 protected:
  void SetUp() override {
    caching::emptyCache();
    ASSERT_EQ(reserved(), 0);
  }

  cachalot_allocator* const allocator_ = installed();
};

// Freed when the process ends, which must not change its exit status.
at::Tensor kept_until_the_end;

// ---- Before the installation

// In a process of its own, which ends with 0 if the text is the expected one.
[[noreturn]] void expect_refusal(const std::function<void()>& before, const std::string& part) {
  before();
  cachalot_error error = CACHALOT_ERROR_INIT;
  const cachalot_status status =
      cachalot_libtorch_install(make_allocator(0), driver_flag(), &error);
  const std::string message = error.message;
  const bool is_expected = status == CACHALOT_ERROR_INVALID_STATE &&
                           message.find(part) != std::string::npos && bytes(kMiB).defined();
  std::fprintf(stderr, "%d %s\n", status, error.message);
  std::exit(is_expected ? 0 : 1);
}

TEST(LibtorchDeathTest, UseOfCudaBeforeIsAnErrorAndLibtorchKeepsItsAllocator) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(expect_refusal([] { bytes(1); },
                             "keeps its allocator, as it does once CUDA is in use: \"Can't swap"),
              testing::ExitedWithCode(0), "");
}

TEST(LibtorchDeathTest, ASecondInstallationIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(expect_refusal([] { installed(); }, "cachalot is libtorch's allocator already"),
              testing::ExitedWithCode(0), "");
}

// ---- What libtorch does with it

TEST_F(Libtorch, AnAllocatorIsItsOwnBase) {
  const auto made = pluggable::createCustomAllocator({}, {});
  EXPECT_EQ(static_cast<void*>(made.get()),
            static_cast<void*>(dynamic_cast<CUDAPluggableAllocator*>(made.get())));
}

TEST_F(Libtorch, StatisticsAreThoseOfTheTensorsThatAreHeld) {
  std::vector<at::Tensor> held;
  int64_t sum = 0;
  for (const int64_t size :
       {int64_t{1}, int64_t{512}, int64_t{1000}, kMiB, 3 * kMiB + 1, 20 * kMiB}) {
    held.push_back(bytes(size));
    sum += (size + 511) / 512 * 512;
    EXPECT_EQ(allocated(), sum);
    cachalot_address base = 0;
    uint64_t segment = 0;
    const auto address = reinterpret_cast<cachalot_address>(held.back().data_ptr());
    EXPECT_EQ(cachalot_base_allocation(allocator_, address, &base, &segment, nullptr), CACHALOT_OK);
  }
  EXPECT_EQ(stats().allocation.all.current, static_cast<int64_t>(held.size()));
  std::string page(1 << 20, '\0');
  ASSERT_EQ(cachalot_metrics_text(allocator_, page.data(), page.size(), nullptr, nullptr),
            CACHALOT_OK);
  EXPECT_NE(page.find(" " + std::to_string(sum) + "\n"), std::string::npos);
  held.clear();
  EXPECT_EQ(allocated(), 0);
  EXPECT_GT(reserved(), sum);
}

TEST_F(Libtorch, TensorsHaveWhatWasCopiedIntoThem) {
  const at::Tensor numbers = at::arange(kMiB);
  const at::Tensor there = numbers.to(at::kCUDA);
  EXPECT_TRUE(there.cpu().equal(numbers));
  EXPECT_EQ(allocated(), 8 * kMiB);
}

TEST_F(Libtorch, AFreeWaitsForARecordedStream) {
  {
    const at::Tensor tensor = bytes(kMiB);
    tensor.record_stream(c10::cuda::getStreamFromPool());
  }
  EXPECT_EQ(allocated(), 0);
  EXPECT_EQ(active(), kMiB);
  at::cuda::getCurrentCUDAStream().synchronize();
  caching::emptyCache();
  EXPECT_EQ(active(), 0);
}

TEST_F(Libtorch, ABlockIsUsedAgainOnItsOwnStream) {
  const auto address_of = [] { return bytes(kMiB).data_ptr(); };
  void* const first = address_of();
  {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    EXPECT_NE(address_of(), first);
  }
  EXPECT_EQ(address_of(), first);
}

TEST_F(Libtorch, TheCacheIsEmptiedByLibtorchAndByATrim) {
  bytes(30 * kMiB);
  EXPECT_EQ(reserved(), 30 * kMiB);
  caching::emptyCache();
  EXPECT_EQ(reserved(), 0);
  bytes(30 * kMiB);
  uint64_t released = 0;
  EXPECT_EQ(cachalot_trim(allocator_, 0, 0, 0, &released, nullptr), CACHALOT_OK);
  EXPECT_EQ(released, 30U * kMiB);
  EXPECT_EQ(reserved(), 0);
}

TEST_F(Libtorch, AMemoryFractionIsALimitWhoeverSetsIt) {
  const int64_t total = static_cast<int64_t>(caching::get()->getMemoryInfo(0).second);
  uint64_t limit = 0;
  caching::setMemoryFraction(0.001, 0);
  EXPECT_EQ(cachalot_memory_limit(allocator_, 0, &limit, nullptr), CACHALOT_OK);
  EXPECT_TRUE(
      begins(text_of<c10::OutOfMemoryError>([&] { bytes(static_cast<int64_t>(limit) + 1); }),
             "CUDA out of memory. Tried to allocate "));
  EXPECT_EQ(cachalot_set_memory_fraction(allocator_, 0, 0.002, nullptr), CACHALOT_OK);
  EXPECT_TRUE(begins(text_of<c10::OutOfMemoryError>([&] { bytes(total); }), "CUDA out of memory."));
  caching::setMemoryFraction(1, 0);
}

TEST_F(Libtorch, OutOfMemoryIsItsOwnExceptionAndTheProgramGoesOn) {
  const int64_t before = stats().num_ooms;
  const auto ask = [] { bytes(int64_t{1} << 50); };
  const std::string text = text_of<c10::OutOfMemoryError>(ask);
  EXPECT_TRUE(begins(
      text, "CUDA out of memory. Tried to allocate 1048576.00 GiB. GPU 0 has a total capacity of "))
      << text;
  EXPECT_EQ(text_of<c10::Error>(ask), text);
  EXPECT_EQ(stats().num_ooms, before + 2);
  bytes(kMiB);
  cachalot_report_options options{};
  options.struct_size = sizeof options;
  cachalot_report* report = nullptr;
  EXPECT_EQ(cachalot_report_create(allocator_, &options, &report, nullptr), CACHALOT_OK);
  cachalot_report_destroy(report);
}

TEST_F(Libtorch, OtherFailuresAreItsErrorsToo) {
  EXPECT_EQ(text_of<c10::Error>([] { caching::setMemoryFraction(2, 0); }),
            "invalid fraction:2. Please set within [0, 1].");
}

TEST_F(Libtorch, WhatIsRoutedToAPoolLiesInIt) {
  const c10::MempoolId_t id{0, 1000};
  caching::beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
  at::Tensor inside = bytes(kMiB);
  caching::endAllocateToPool(0, id);
  const at::Tensor outside = bytes(kMiB);
  const auto address = reinterpret_cast<cachalot_address>(inside.data_ptr());
  int32_t is_live = 0;
  const cachalot_pool_id same{id.first, id.second};
  EXPECT_EQ(cachalot_pool_has_live(allocator_, 0, same, &address, 1, &is_live, nullptr),
            CACHALOT_OK);
  EXPECT_EQ(is_live, 1);
  inside.reset();
  caching::releasePool(0, id);
  caching::emptyCache();
  EXPECT_EQ(reserved(), 2 * kMiB) << "of the tensor outside";
}

TEST_F(Libtorch, ThreadsAreServedAtOnce) {
  std::vector<at::Tensor> shared(64);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 4; thread++)
    threads.emplace_back([&, thread] {
      for (int64_t round = 0; round < 1000; round++)
        shared[thread * 16 + round % 16] = bytes((round + 1) * 512);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocated(), 4 * 512 * (985 + 1000) * 8);
  shared.clear();
  EXPECT_EQ(allocated(), 0);
}

// These, and no others, need a function of cachalot instead: the table of bindings/libtorch/README.md.
TEST_F(Libtorch, WhatItsContractLeavesOutIsAnErrorOfItsOwn) {
  const auto refuses = [](const std::function<void()>& function) {
    const std::string text = text_of<c10::Error>(function);
    return text.find("does not yet support ") != std::string::npos ||
           text.find("does not support ") != std::string::npos;
  };
  EXPECT_TRUE(refuses([] { caching::getDeviceStats(0); }));
  EXPECT_TRUE(refuses([] { caching::resetPeakStats(0); }));
  EXPECT_TRUE(refuses([] { caching::resetAccumulatedStats(0); }));
  EXPECT_TRUE(refuses([] { caching::snapshot(); }));
  EXPECT_TRUE(refuses(
      [] { caching::recordHistory(true, nullptr, 1, caching::RecordContext::NEVER, false, {}); }));
  EXPECT_TRUE(refuses([] { caching::isHistoryEnabled(); }));
  EXPECT_TRUE(refuses([] { caching::getMemoryFraction(0); }));
  EXPECT_TRUE(refuses([] {
    size_t largest = 0;
    caching::cacheInfo(0, &largest);
  }));
  EXPECT_TRUE(refuses([] { caching::getExpandableSegmentSizes(0); }));
  EXPECT_TRUE(refuses([] { caching::getCheckpointState(0, {0, 1}); }));
  EXPECT_TRUE(refuses([] { at::cuda::MemPool pool; }));
  EXPECT_TRUE(refuses([] { caching::attachOutOfMemoryObserver({}); }));
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
  EXPECT_TRUE(refuses([] { caching::get()->attachOomRejectionObserver({}); }));
#endif
  EXPECT_TRUE(refuses([] { caching::attachAllocatorTraceTracker({}); }));
  EXPECT_TRUE(refuses([] { caching::shareIpcHandle(nullptr); }));
  EXPECT_TRUE(refuses([] { caching::getIpcDevPtr(""); }));
  EXPECT_EQ(caching::name(), "pluggable");
  EXPECT_TRUE(caching::isEnabled());
  caching::enable(false);  // nothing happens
  bytes(30 * kMiB);
  at::getDeviceAllocator(at::kCUDA)->emptyCache();  // of libtorch's own, which is empty
  EXPECT_EQ(reserved(), 30 * kMiB);
  caching::emptyCache({0, 1});  // the contract does not tell the pool
  EXPECT_EQ(reserved(), 0);
}

// ---- What kernels do

class OnGpu : public Libtorch {
 protected:
  void SetUp() override {
    if (!is_on_gpu()) GTEST_SKIP() << "no kernel runs over the host's memory";
    Libtorch::SetUp();
  }
};

TEST_F(OnGpu, KernelsComputeInItsMemory) {
  const at::Tensor numbers =
      at::arange(1000, at::TensorOptions().dtype(at::kLong).device(at::kCUDA));
  EXPECT_EQ(numbers.sum().item<int64_t>(), 499500);
}

TEST_F(OnGpu, AGraphIsCapturedIntoAPoolAndReplayed) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  at::Tensor input = at::ones({1000}, at::kCUDA);
  at::Tensor output;
  {
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    output = input * 2 + 1;
    graph.capture_end();
    for (int i = 0; i < 3; i++) {
      input.fill_(i);
      graph.replay();
      EXPECT_TRUE(output.cpu().equal(at::full({1000}, 2.0F * i + 1)));
    }
  }
  output.reset();
  input.reset();
  caching::emptyCache();
  EXPECT_EQ(reserved(), 0);
}

}  // namespace

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  const int status = RUN_ALL_TESTS();
  installed();
  kept_until_the_end = bytes(1);
  return status;
}
