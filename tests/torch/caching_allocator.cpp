// SPDX-License-Identifier: MIT OR Apache-2.0
// PyTorch's allocator as PyTorch's own C++ code uses it, for extension_test.py: observers (as of memory that is registered
// with NCCL), and access between devices.
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/extension.h>

#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

using Entry = std::tuple<int, size_t, size_t, uintptr_t>;
using Rejection = std::tuple<int64_t, size_t, size_t, size_t>;

std::mutex mutex;
std::vector<Entry> entries;
std::vector<Rejection> rejections;

void observe_trace() {
  caching::attachAllocatorTraceTracker([](const caching::TraceEntry& entry) {
    const std::lock_guard lock(mutex);
    entries.emplace_back(entry.action_, entry.addr_, entry.size_,
                         reinterpret_cast<uintptr_t>(entry.stream_));
  });
}

void observe_rejections() {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12
  caching::get()->attachOomRejectionObserver(
      [](int64_t device, size_t asked, size_t obtained, size_t total) {
        const std::lock_guard lock(mutex);
        rejections.emplace_back(device, asked, obtained, total);
      });
#endif
}

template <typename Rows>
Rows taken(Rows& rows) {
  const std::lock_guard lock(mutex);
  return std::exchange(rows, {});
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("observe_trace", &observe_trace);
  module.def("observe_rejections", &observe_rejections);
  module.def("enable_peer_access",
             [](int device, int peer) { caching::get()->enablePeerAccess(device, peer); });
  module.def("take_entries", [] { return taken(entries); });
  module.def("take_rejections", [] { return taken(rejections); });
}
