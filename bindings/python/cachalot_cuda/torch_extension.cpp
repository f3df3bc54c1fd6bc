// SPDX-License-Identifier: MIT OR Apache-2.0
// PyTorch's allocator class with what its contract for foreign allocators has no hooks for: memory between processes,
// access and copies between devices, and observers. torch_extension.py compiles it against the headers of the PyTorch
// that runs, and it takes the place of PyTorch's own CUDAPluggableAllocator.
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>
#include <torch/extension.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "cachalot/cachalot.h"

// From capi/pluggable, which has no public header.
extern "C" cachalot_status cachalot_pluggable_get_allocator(cachalot_allocator** out_allocator,
                                                            cachalot_error* error);

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

// The functions of the library that Python has opened, whichever other copies the process has.
class Library {
 public:
  explicit Library(void* handle) : handle_(handle) {}

  template <typename Function, typename... Arguments>
  void call(Function* function, Arguments... arguments) const {
    cachalot_error error{sizeof error};
    cachalot_allocator* allocator = nullptr;
    cachalot_status status = cachalot_pluggable_get_allocator(&allocator, &error);
    if (status == CACHALOT_OK) status = function(allocator, arguments..., &error);
    TORCH_CHECK(status == CACHALOT_OK, error.message);
  }

 private:
  void* find(const char* name) const {
    void* const found = dlsym(handle_, name);
    TORCH_CHECK(found != nullptr, "the library has no ", name);
    return found;
  }

  void* handle_;

 public:
#define CACHALOT_FUNCTION(name) \
  decltype(&::name) name = reinterpret_cast<decltype(&::name)>(find(#name))
  CACHALOT_FUNCTION(cachalot_pluggable_get_allocator);
  CACHALOT_FUNCTION(cachalot_share);
  CACHALOT_FUNCTION(cachalot_open_shared);
  CACHALOT_FUNCTION(cachalot_close_shared);
  CACHALOT_FUNCTION(cachalot_enable_peer_access);
  CACHALOT_FUNCTION(cachalot_expandable_segments);
  CACHALOT_FUNCTION(cachalot_observe_trace);
  CACHALOT_FUNCTION(cachalot_observe_out_of_memory);
  CACHALOT_FUNCTION(cachalot_observe_rejection);
  CACHALOT_FUNCTION(cachalot_memory_limit);
#undef CACHALOT_FUNCTION
};

cachalot_address to_address(const void* pointer) {
  return reinterpret_cast<cachalot_address>(pointer);
}

// ---- Observers of PyTorch's are the user data of callbacks

caching::TraceEntry to_entry(const cachalot_trace_entry& entry) {
  return {static_cast<caching::TraceEntry::Action>(entry.action),
          static_cast<c10::DeviceIndex>(entry.device),
          entry.address,
          entry.size,
          reinterpret_cast<void*>(entry.stream),
          {entry.pool.first, entry.pool.second},
          c10::getApproximateTime(),
          /*context=*/nullptr,
          /*compile_context=*/"N/A",
          entry.metadata};
}

// What PyTorch's observers get of an event; out-of-memory observers the limit, or the device's memory without one.
void call_observer(const Library&, const caching::AllocatorTraceTracker& observer,
                   const cachalot_trace_entry& entry) {
  observer(to_entry(entry));
}

void call_observer(const Library& library, const caching::OutOfMemoryObserver& observer,
                   const cachalot_out_of_memory& numbers) {
  uint64_t limit = UINT64_MAX;
  library.call(library.cachalot_memory_limit, numbers.device, &limit);
  observer(numbers.device, numbers.segment_size, limit == UINT64_MAX ? numbers.device_total : limit,
           numbers.device_free);
}

// Rejection observers (PyTorch 2.12 and later) have the same type.
void call_observer(const Library&, const caching::OutOfMemoryObserver& observer,
                   const cachalot_rejection& numbers) {
  observer(numbers.device, numbers.segment_size, numbers.reserved, numbers.device_total);
}

template <typename Observer>
struct Attached {
  Library library;
  Observer observer;
};

template <typename Observer, typename Event>
void observe(const Library& library,
             cachalot_status (*attach)(cachalot_allocator*, void (*)(void*, const Event*), void*,
                                       void (*)(void*), uint64_t*, cachalot_error*),
             Observer observer) {
  void (*const called)(void*, const Event*) = [](void* data, const Event* event) {
    const auto& attached = *static_cast<Attached<Observer>*>(data);
    call_observer(attached.library, attached.observer, *event);
  };
  void (*const destroy)(void*) = [](void* data) { delete static_cast<Attached<Observer>*>(data); };
  uint64_t* const no_id = nullptr;  // PyTorch never detaches one
  library.call(attach, called,
               static_cast<void*>(new Attached<Observer>{library, std::move(observer)}), destroy,
               no_id);
}

// ---- The allocator

class Allocator final : public torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator {
 public:
  using Alloc = void*(size_t, int, cudaStream_t);
  using Free = void(void*, size_t, int, cudaStream_t);

  Allocator(const Library& library, Alloc* alloc, Free* free)
      : CUDAPluggableAllocator(alloc, free), library_(library) {}

  caching::ShareableHandle shareIpcHandle(void* pointer) override {
    std::string bytes;
    uint64_t offset = 0;
    for (size_t size = 0;; bytes.resize(size)) {
      library_.call(library_.cachalot_share, to_address(pointer), static_cast<void*>(bytes.data()),
                    bytes.size(), &size, &offset);
      if (size <= bytes.size()) return {static_cast<ptrdiff_t>(offset), std::move(bytes)};
    }
  }

  std::shared_ptr<void> getIpcDevPtr(std::string bytes) override {
    cachalot_address address = 0;
    library_.call(library_.cachalot_open_shared, int32_t{c10::cuda::current_device()},
                  static_cast<const void*>(bytes.data()), bytes.size(), &address);
    return {reinterpret_cast<void*>(address),
            [library = library_](void* memory) { close(library, memory); }};
  }

  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker observer) override {
    observe(library_, library_.cachalot_observe_trace, std::move(observer));
  }

  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override {
    observe(library_, library_.cachalot_observe_out_of_memory, std::move(observer));
  }

  // Overrides a function of PyTorch 2.12 and later.
  void attachOomRejectionObserver(caching::OutOfMemoryObserver observer) {
    observe(library_, library_.cachalot_observe_rejection, std::move(observer));
  }

  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) override {
    library_.call(library_.cachalot_enable_peer_access, int32_t{device}, int32_t{peer});
  }

  // By the runtime, not by cachalot_copy: PyTorch's stream is one of the current device.
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t size,
                          cudaStream_t stream, bool is_peer_access_enabled) override {
    const bool is_peer_copy =
        to_device != from_device && !is_peer_access_enabled &&
        (has_expandable_segments(to_device) || has_expandable_segments(from_device));
    return is_peer_copy ? cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream)
                        : cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
  }

 private:
  // A storage may end while an exception is under way.
  static void close(const Library& library, void* memory) noexcept {
    try {
      library.call(library.cachalot_close_shared, to_address(memory));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "cachalot: %s\n", error.what());
    }
  }

  bool has_expandable_segments(int32_t device) const {
    size_t count = 0;
    cachalot_expandable_segment* const no_rows = nullptr;
    library_.call(library_.cachalot_expandable_segments, device, no_rows, size_t{0}, &count);
    return count > 0;
  }

  const Library library_;
};

// Takes addresses: of the opened library, and of the two functions of the contract. The allocator is never destroyed,
// since static objects of PyTorch's free memory when the process ends.
std::shared_ptr<torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator> make(uintptr_t library,
                                                                                  uintptr_t alloc,
                                                                                  uintptr_t free) {
  auto* const allocator = new Allocator(Library(reinterpret_cast<void*>(library)),
                                        reinterpret_cast<Allocator::Alloc*>(alloc),
                                        reinterpret_cast<Allocator::Free*>(free));
  return {allocator, [](auto*) {}};
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("make", &make); }
