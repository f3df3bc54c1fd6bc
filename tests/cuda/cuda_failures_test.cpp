// SPDX-License-Identifier: MIT OR Apache-2.0
// Every call of the driver fails once at every place of a program that uses all of the allocator:
// the error is passed on or mended, nothing is damaged, and at the end nothing is left behind.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "alloc/allocator.h"
#include "base/error.h"
#include "base/units.h"
#include "device/cuda_driver.h"
#include "fake_cuda.h"

namespace cachalot {
namespace {

constexpr Stream kStream = 0x50;
constexpr Stream kOther = 0x60;

// clang-format off
#define CACHALOT_NAME(name, version, ...) #name,
// clang-format on
const std::vector<std::string> kFunctions = {CACHALOT_CUDA_FUNCTIONS(CACHALOT_NAME)
                                                 CACHALOT_CUDA_VIRTUAL_MEMORY(CACHALOT_NAME)
                                                     CACHALOT_CUDA_MEMORY_POOLS(CACHALOT_NAME)};
#undef CACHALOT_NAME

// Does a step; an error must be one of the driver's or out of memory.
template <class Step>
void attempt(Step step) {
  try {
    step();
  } catch (const Error& error) {
    const bool is_expected =
        error.status() == Status::kDriver || error.status() == Status::kOutOfMemory;
    EXPECT_TRUE(is_expected) << error.message();
  }
}

class Program {
 public:
  explicit Program(const std::string& config) {
    AllocatorOptions options;
    options.driver = std::make_shared<CudaDriver>();
    options.config = config;
    allocator_ = std::make_unique<Allocator>(options);
  }

  void run() {
    for (const uint64_t size : {uint64_t{512}, 3 * MiB, 30 * MiB}) allocate(size, kStream);
    attempt([&] { allocator_->enable_peer_access(0, 1); });
    for (const Address block : blocks_) attempt([&] { allocator_->record_stream(block, kOther); });
    free_all_blocks();
    allocate(30 * MiB, kOther);
    allocate(512, kStream);
    free_all_blocks();
    attempt([&] { allocator_->empty_cache(0); });
    attempt([&] { allocator_->device_totals(0); });
    attempt([&] { allocator_->set_memory_fraction(0, 0.5); });
    allocate(64 * MiB, kStream);
  }

  void end() {
    EXPECT_EQ(allocator_->check(), "");
    allocator_->free_all();
    allocator_.reset();
  }

 private:
  void allocate(uint64_t size, Stream stream) {
    attempt([&] { blocks_.push_back(allocator_->allocate(size, 0, stream)); });
  }
  // A free that fails is tried again.
  void free_all_blocks() {
    for (const Address block : blocks_) {
      attempt([&] { allocator_->free(block); });
      attempt_again(block);
    }
    blocks_.clear();
  }
  void attempt_again(Address block) {
    try {
      allocator_->free(block);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::kInvalidArgument) << error.message();
    }
  }

  std::unique_ptr<Allocator> allocator_;
  std::vector<Address> blocks_;
};

// A call that gives back can not be made good: what it was for stays with the driver. Any call needs
// its context.
bool gives_back(const std::string& function) {
  return function == "cuMemFree" || function == "cuMemRelease" || function == "cuMemUnmap" ||
         function == "cuMemAddressFree" || function == "cuEventDestroy" ||
         function == "cuMemFreeAsync" || function == "cuStreamDestroy" ||
         function == "cuDevicePrimaryCtxRelease" || function == "cuCtxPopCurrent" ||
         function == "cuCtxPushCurrent";
}

class CudaFailures : public testing::TestWithParam<const char*> {};

TEST_P(CudaFailures, OfEachCallAtEachPlaceDamageNothing) {
  uint64_t places = 0;
  for (const std::string& function : kFunctions) {
    for (const int code : {2, 700}) {
      for (uint64_t after = 0;; after++) {
        fake_cuda::reset();
        fake_cuda::set_device_count(2);
        try {
          Program program(GetParam());
          fake_cuda::fail(function, code, after);
          const uint64_t before = fake_cuda::calls(function);
          program.run();
          const bool has_failed = fake_cuda::calls(function) - before > after;
          program.end();
          if (!gives_back(function)) {
            EXPECT_EQ(fake_cuda::leftovers(), "") << function << " " << code << " " << after;
          }
          if (!has_failed) break;
          places++;
        } catch (const Error& error) {
          ADD_FAILURE() << function << " " << after << ": " << error.message();
          break;
        }
      }
    }
  }
  EXPECT_GT(places, 100u);
}

INSTANTIATE_TEST_SUITE_P(Options, CudaFailures, testing::Values("", "expandable_segments:True"));

}  // namespace
}  // namespace cachalot
