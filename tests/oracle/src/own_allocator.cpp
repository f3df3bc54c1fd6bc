// SPDX-License-Identifier: MIT OR Apache-2.0
#include "own_allocator.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "output.h"
#include "release.h"

namespace oracle {
namespace {

namespace cca = c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using c10::MempoolId_t;

// A range that the simulated device never uses.
constexpr uint64_t kFirstAddress = 0x100000000000;
constexpr uint64_t kAlignment = uint64_t{2} << 20;

int failures = 0;

// Leaves a gap of a page between segments, so that none are neighbours.
uint64_t next_address(size_t size) {
  static uint64_t next = kFirstAddress;
  const uint64_t address = next;
  next += (size + 2 * kAlignment - 1) & ~(kAlignment - 1);
  return address;
}

void delete_segment(void* address) { line("D own_free " + hex(address)); }

// PyTorch calls no other function of a pool's allocator.
class OwnAllocator : public cca::CUDAAllocator {
 public:
  void* raw_alloc(size_t size) override { return take(size, c10::cuda::getCurrentCUDAStream(0)); }
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    return take(size, stream);
  }
  void raw_delete(void* address) override { delete_segment(address); }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_segment; }
  void init(int) override {}
  bool initialized() override { return true; }
  bool isEnabled() const override { return true; }
  std::string name() override { return "own"; }

  c10::DataPtr allocate(size_t) override { refuse(); }
  void copy_data(void*, const void*, size_t) const override { refuse(); }
  double getMemoryFraction(DeviceIndex) override { refuse(); }
  void setMemoryFraction(double, DeviceIndex) override { refuse(); }
  std::vector<cca::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex) override { refuse(); }
  void enable(bool) override { refuse(); }
  void emptyCache(MempoolId_t) override { refuse(); }
  void cacheInfo(DeviceIndex, size_t*) override { refuse(); }
  void* getBaseAllocation(void*, size_t*) override { refuse(); }
  void recordStream(const c10::DataPtr&, c10::cuda::CUDAStream) override { refuse(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override { refuse(); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) override { refuse(); }
  void resetAccumulatedStats(DeviceIndex) override { refuse(); }
  void resetPeakStats(DeviceIndex) override { refuse(); }
  cca::SnapshotInfo snapshot(MempoolId_t, bool) override { refuse(); }
  void beginAllocateToPool(DeviceIndex, MempoolId_t, std::function<bool(cudaStream_t)>) override {
    refuse();
  }
  void endAllocateToPool(DeviceIndex, MempoolId_t) override { refuse(); }
  void releasePool(DeviceIndex, MempoolId_t) override { refuse(); }
  cca::ShareableHandle shareIpcHandle(void*) override { refuse(); }
  std::shared_ptr<void> getIpcDevPtr(std::string) override { refuse(); }
  void recordHistory(bool, cca::CreateContextFn, size_t, cca::RecordContext, bool,
                     const std::vector<std::string>&) override {
    refuse();
  }
  void attachOutOfMemoryObserver(cca::OutOfMemoryObserver) override { refuse(); }
  void attachAllocatorTraceTracker(cca::AllocatorTraceTracker) override { refuse(); }
#if SINCE(12)
  void attachOomRejectionObserver(cca::OomRejectionObserver) override { refuse(); }
#endif
  void enablePeerAccess(DeviceIndex, DeviceIndex) override { refuse(); }
  cudaError_t memcpyAsync(void*, int, const void*, int, size_t, cudaStream_t, bool) override {
    refuse();
  }
  std::shared_ptr<cca::AllocatorState> getCheckpointState(DeviceIndex, MempoolId_t) override {
    refuse();
  }
  cca::CheckpointDelta setCheckpointPoolState(DeviceIndex,
                                              std::shared_ptr<cca::AllocatorState>) override {
    refuse();
  }

 private:
  [[noreturn]] static void refuse() {
    fprintf(stderr, "unexpected call of the pool's own allocator\n");
    exit(3);
  }

  static void* take(size_t size, cudaStream_t stream) {
    const std::string call = "D own_malloc " + std::to_string(size) + " " + hex(stream) + " ";
    if (failures > 0) {
      failures--;
      line(call + "null");
      return nullptr;
    }
    const uint64_t address = next_address(size);
    line(call + hex(address));
    return reinterpret_cast<void*>(address);
  }
};

}  // namespace

std::shared_ptr<cca::CUDAAllocator> own_allocator() {
  static const auto allocator = std::make_shared<OwnAllocator>();
  return allocator;
}

void fail_own_allocations(int count) { failures = count; }

}  // namespace oracle
