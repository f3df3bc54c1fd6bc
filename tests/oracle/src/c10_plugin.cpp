// SPDX-License-Identifier: MIT OR Apache-2.0
// PyTorch's own allocator behind the pluggable-allocator contract, over the simulated runtime: the
// benchmark's reference. With C10_PLUGIN_HISTORY it records the history, without contexts.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/PeerToPeerAccess.h>
#include <cuda_runtime_api.h>

#include <cstdlib>

#include "fakecuda.h"

namespace c10::cuda::_internal {
C10_CUDA_API void setHasPrimaryContext(bool (*)(DeviceIndex));
}

namespace {

namespace cca = c10::cuda::CUDACachingAllocator;

constexpr size_t kHistoryEntries = 100'000;

[[maybe_unused]] const bool ready = [] {
  const char* gib = std::getenv("C10_PLUGIN_GIB");
  fakecuda::configure((gib ? std::strtoull(gib, nullptr, 10) : 80) << 30, 1);
  c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
  c10::cuda::detail::init_p2p_access_cache(1);  // which pages of expandable segments ask for
  cca::init(1);
  if (std::getenv("C10_PLUGIN_HISTORY"))
    cca::recordHistory(true, nullptr, kHistoryEntries, cca::RecordContext::NEVER, true, {});
  return true;
}();

}  // namespace

extern "C" void* c10_alloc(ssize_t size, int, cudaStream_t stream) {
  return cca::raw_alloc_with_stream(static_cast<size_t>(size), stream);
}

extern "C" void c10_free(void* address, ssize_t, int, cudaStream_t) { cca::raw_delete(address); }

// For the benchmark of latency.
extern "C" void c10_set_latency(uint64_t nanoseconds) { fakecuda::set_latency(nanoseconds); }
extern "C" void c10_snapshot() { cca::snapshot(); }
extern "C" void c10_trim() { cca::emptyCache(); }
extern "C" void c10_read_stats() { cca::getDeviceStats(0); }
