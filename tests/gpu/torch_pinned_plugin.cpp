// SPDX-License-Identifier: MIT OR Apache-2.0
// PyTorch's own allocator of pinned memory, without Python. Built against the installed package (build.sh).
#include <ATen/core/CachingHostAllocator.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <exception>

namespace {

// The same for each block.
std::atomic<c10::DeleterFnPtr> free_block{nullptr};

at::HostAllocator& pinned() { return *at::getHostAllocator(c10::DeviceType::CUDA); }

}  // namespace

// NULL where there is no memory. context: names the block in the calls below.
extern "C" void* torch_pinned_allocate(size_t size, void** context) {
  try {
    c10::DataPtr data = pinned().allocate(size);
    void* const memory = data.get();
    free_block = data.get_deleter();
    *context = data.release_context();
    return memory;
  } catch (const std::exception&) {
    return nullptr;
  }
}

extern "C" void torch_pinned_free(void* context) { free_block.load()(context); }

extern "C" void torch_pinned_empty() { pinned().empty_cache(); }

// Bytes obtained, cached ones too.
extern "C" int64_t torch_pinned_bytes() { return pinned().get_stats().allocated_bytes.current; }
