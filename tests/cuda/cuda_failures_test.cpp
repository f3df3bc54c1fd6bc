// SPDX-License-Identifier: MIT OR Apache-2.0
// Every call of the driver fails once at every place of a program that uses all of the allocator:
// the error is passed on or mended, nothing is damaged, and at the end nothing is left behind.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "alloc/allocator.h"
#include "alloc/native/memory_sharing.h"
#include "alloc/pinned/pinned_allocator.h"
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
const std::vector<std::string> kFunctions = {
    CACHALOT_CUDA_FUNCTIONS(CACHALOT_NAME) CACHALOT_CUDA_VIRTUAL_MEMORY(CACHALOT_NAME)
        CACHALOT_CUDA_MEMORY_POOLS(CACHALOT_NAME) CACHALOT_CUDA_CONTEXT_EVENTS(CACHALOT_NAME)
            CACHALOT_CUDA_HOST_MEMORY(CACHALOT_NAME) CACHALOT_CUDA_IPC(CACHALOT_NAME)
                CACHALOT_CUDA_GPU_UUID(CACHALOT_NAME) "cuDeviceGetUuid_v2",
    "cuStreamGetCaptureInfo_v3"};
#undef CACHALOT_NAME

// Does a step; an error must be one of the driver's, or out of memory, or that of a step which needs
// one that failed.
template <class Step>
void attempt(Step step) {
  try {
    step();
  } catch (const Error& error) {
    const bool is_expected = error.status() == Status::kDriver ||
                             error.status() == Status::kOutOfMemory ||
                             error.status() == Status::kInvalidState;
    EXPECT_TRUE(is_expected) << error.message();
  }
}

constexpr Stream kCaptured = 0x70;

class KeptInPinnedMemory final : public ContentStore {
 public:
  explicit KeptInPinnedMemory(Allocator& allocator) : allocator_(allocator) {}
  Address allocate(uint64_t size) override { return allocator_.pinned().allocate(size, 0, 0); }
  void free(Address buffer, int device, Stream stream) noexcept override {
    attempt([&] { allocator_.pinned().record_stream(buffer, device, stream); });
    attempt([&] { allocator_.pinned().free(buffer); });
  }

 private:
  Allocator& allocator_;
};

class Program {
 public:
  Program(const std::string& config, DebugOptions debug) {
    AllocatorOptions options;
    options.driver = std::make_shared<CudaDriver>();
    options.config = config;
    options.debug = debug;
    has_all_streams_ = config != "backend:cudaMallocAsync";
    can_sleep_ = config == "expandable_segments:True";
    allocator_ = std::make_unique<Allocator>(options);
  }

  void run() {
    for (const uint64_t size : {uint64_t{512}, 3 * MiB, 30 * MiB}) allocate(size, kStream);
    attempt([&] { allocator_->enable_peer_access(0, 1); });
    use_blocks();
    if (has_all_streams_) use_blocks_by_all();
    free_all_blocks();
    allocate(30 * MiB, kOther);
    allocate(512, kStream);
    capture();
    free_all_blocks();
    use_pinned_memory();
    attempt([&] { allocator_->empty_cache(0); });
    if (has_all_streams_) share_memory();
    copy();
    if (can_sleep_) sleep_and_wake();
    attempt([&] { allocator_->device_totals(0); });
    attempt([&] { allocator_->stats(0); });
    attempt([&] { allocator_->reset_peak_stats(0); });
    attempt([&] { allocator_->set_memory_fraction(0, 0.5); });
    allocate(64 * MiB, kStream);
    allocate(uint64_t{1} << 40, kStream);
  }

  void end() {
    EXPECT_EQ(allocator_->check(), "");
    allocator_->free_all();
    allocator_.reset();
  }

 private:
  // Within a device, and from one to another that was given no access.
  void copy() {
    attempt([&] {
      const Address from = allocator_->allocate(512, 0, kStream);
      blocks_.push_back(from);
      allocator_->copy(from, 0, from, 0, 8, kStream);
      const Address to = allocator_->allocate(512, 1, kStream);
      blocks_.push_back(to);
      allocator_->copy(to, 1, from, 0, 8, kStream);
    });
  }
  // A pool with contents. What fails leaves it as it was, so that the next step goes on.
  void sleep_and_wake() {
    const PoolId pool{0, 9};
    attempt([&] { allocator_->pool_begin(0, pool, [](Stream) { return true; }); });
    allocate(3 * MiB, kStream);
    attempt([&] { allocator_->pool_end(0, pool); });
    SleepRequest request{.pool = pool, .contents = SleepContents::kKeep, .stream = kStream};
    request.store = std::make_shared<KeptInPinnedMemory>(*allocator_);
    for (int turn = 0; turn < 2; turn++) {
      attempt([&] { allocator_->pool_sleep(0, request); });
      EXPECT_EQ(allocator_->check(), "");
      attempt([&] { allocator_->pool_wake(0, pool, kStream); });
      EXPECT_EQ(allocator_->check(), "");
    }
    attempt([&] { allocator_->pool_release(0, pool); });
  }
  void share_memory() {
    attempt([&] {
      const Address block = allocator_->allocate(3 * MiB, 0, kStream);
      blocks_.push_back(block);
      MemorySharing& sharing = allocator_->sharing("shareIpcHandle");
      uint64_t offset = 0;
      const std::string bytes = sharing.share_as_bytes(block, &offset);
      sharing.close(sharing.open_bytes(0, bytes));
    });
  }
  void allocate(uint64_t size, Stream stream) {
    attempt([&] { blocks_.push_back(allocator_->allocate(size, 0, stream)); });
  }
  void use_blocks() {
    for (const Address block : blocks_) attempt([&] { allocator_->record_stream(block, kOther); });
  }
  void use_blocks_by_all() {
    allocate(MiB, kAllStreams);
    for (const Address block : blocks_)
      attempt([&] { allocator_->record_stream(block, kAllStreams); });
  }
  // A block of each kind, used and freed, and one that stays.
  void use_pinned_memory() {
    for (const bool is_registered : {false, true, false}) {
      attempt([&] {
        allocator_->change_settings(
            [&](Settings& settings) { settings.pinned_use_cuda_host_register = is_registered; });
        PinnedAllocator& pinned = allocator_->pinned();
        // Of a size of its own, so that no cached one of the other kind serves.
        const Address block = pinned.allocate(is_registered ? 2 * MiB : MiB, 0, kStream);
        *reinterpret_cast<char*>(block) = 1;
        pinned.record_stream(block, 0, kOther);
        pinned.free(block);
      });
    }
    attempt([&] { allocator_->pinned().empty_cache(); });
    attempt([&] { allocator_->pinned().allocate(MiB, 0, kStream); });
  }
  // A capture in which blocks are made, used and freed on two streams of it.
  void capture() {
    fake_cuda::capture(kCaptured, 1);
    fake_cuda::capture(kOther, 2);
    const PoolId pool{1, 0};
    attempt([&] { allocator_->pool_begin(0, pool, [](Stream) { return true; }); });
    attempt([&] { allocator_->capture_begin(0); });
    allocate(MiB, kCaptured);
    use_blocks();
    free_all_blocks();
    allocate(MiB, kCaptured);
    attempt([&] { allocator_->capture_end(0); });
    fake_cuda::capture(kCaptured, -1);
    fake_cuda::capture(kOther, -1);
    attempt([&] { allocator_->pool_end(0, pool); });
    attempt([&] { allocator_->pool_release(0, pool); });
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
      const bool is_gone = error.status() == Status::kInvalidArgument;
      EXPECT_TRUE(is_gone || error.status() == Status::kInvalidState) << error.message();
    }
  }

  std::unique_ptr<Allocator> allocator_;
  std::vector<Address> blocks_;
  bool has_all_streams_;
  bool can_sleep_;
};

// A call that gives back cannot be made good: what it was for stays with the driver. Any call needs
// its context.
bool gives_back(const std::string& function) {
  return function == "cuMemFree" || function == "cuMemFreeHost" ||
         function == "cuMemHostUnregister" || function == "cuMemRelease" ||
         function == "cuMemUnmap" || function == "cuMemAddressFree" ||
         function == "cuEventDestroy" || function == "cuMemFreeAsync" ||
         function == "cuStreamDestroy" || function == "cuDevicePrimaryCtxRelease" ||
         function == "cuCtxPopCurrent" || function == "cuCtxPushCurrent";
}

// What this program never asks for: the size of pages, what only older drivers are asked.
bool is_unused(const std::string& function) {
  return function == "cuGetErrorString" || function == "cuMemGetAllocationGranularity" ||
         function == "cuStreamGetCaptureInfo";
}

struct Setting {
  const char* config;
  DebugOptions debug;
};

// Whether the program got so far that the call failed.
bool run_with_failure(const Setting& setting, const std::string& function, int code,
                      uint64_t after) {
  fake_cuda::reset();
  fake_cuda::set_device_count(2);
  fake_cuda::fail(function, code, after);
  try {
    Program program(setting.config, setting.debug);
    program.run();
    program.end();
    if (!gives_back(function)) {
      EXPECT_EQ(fake_cuda::leftovers(), "") << function << " " << code << " " << after;
    }
    return fake_cuda::calls(function) > after;
  } catch (const Error& error) {  // the driver could not be opened, or not for these options
    const bool is_expected =
        error.status() == Status::kDriverUnavailable || error.status() == Status::kNotSupported;
    EXPECT_TRUE(is_expected) << function << " " << after << ": " << error.message();
    return true;
  }
}

TEST(CudaFailures, OfEachCallAtEachPlaceDamageNothing) {
  const Setting settings[] = {{"", {}},
                              {"expandable_segments:True", {}},
                              {"graph_capture_record_stream_reuse:True", {}},
                              {"backend:cudaMallocAsync", {}},
                              {"", {.poison = true, .red_zones = true}}};
  for (const std::string& function : kFunctions) {
    uint64_t places = 0;
    for (const Setting& setting : settings) {
      for (const int code : {2, 700}) {
        for (uint64_t after = 0; run_with_failure(setting, function, code, after); after++)
          places++;
      }
    }
    EXPECT_EQ(places == 0, is_unused(function)) << function;
  }
}

}  // namespace
}  // namespace cachalot
