// SPDX-License-Identifier: MIT OR Apache-2.0
#include <dlfcn.h>

#include <cstdint>
#include <utility>

#include "allocator.h"
#include "contender.h"

namespace gpu {
namespace {

class Cachalot final : public Contender {
 public:
  Cachalot(const std::string& name, const std::string& config, const std::string& driver,
           const std::string& policy)
      : Contender(name), allocator_(config, driver, CACHALOT_RELEASE_2_11, policy) {}

  void* allocate(size_t size, cudaStream_t stream) override {
    cachalot_address address = 0;
    if (cachalot_allocate(allocator_.get(), size, 0, handle_of(stream), &address, nullptr) !=
        CACHALOT_OK) {
      // Once more, for its words.
      address = allocator_.allocate(size, 0, stream);
    }
    return reinterpret_cast<void*>(address);
  }
  void free(void* address, cudaStream_t) override {
    const auto number = reinterpret_cast<cachalot_address>(address);
    if (cachalot_free(allocator_.get(), number, nullptr) != CACHALOT_OK) allocator_.free(number);
  }
  void empty() override { allocator_.empty_cache(); }

 private:
  Allocator allocator_;
};

class Torch final : public Contender {
 public:
  Torch(const std::string& name, std::string config, const std::string& library)
      : Contender(name), config_(std::move(config)) {
    // Never closed: the libraries behind it do not expect to be unloaded.
    void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw Failure(dlerror());
    load(handle, "torch_allocate", allocate_);
    load(handle, "torch_free", free_);
    load(handle, "torch_empty", empty_);
    load(handle, "torch_configure", configure_);
    const char* (*start)() = nullptr;
    load(handle, "torch_start", start);
    if (const char* problem = start()) throw Failure(std::string("PyTorch: ") + problem);
  }

  void begin_turn() override {
    if (const char* problem = configure_(config_.c_str()))
      throw Failure(std::string("PyTorch: ") + problem);
  }
  void* allocate(size_t size, cudaStream_t stream) override {
    void* const address = allocate_(size, stream);
    if (!address) throw Failure("PyTorch: no memory");
    return address;
  }
  void free(void* address, cudaStream_t) override { free_(address); }
  void empty() override { empty_(); }

 private:
  template <class Function>
  static void load(void* handle, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (!function) throw Failure(std::string("the plugin has no ") + name);
  }

  void* (*allocate_)(size_t, cudaStream_t) = nullptr;
  void (*free_)(void*) = nullptr;
  void (*empty_)() = nullptr;
  const char* (*configure_)(const char*) = nullptr;
  const std::string config_;
};

class StreamOrdered final : public Contender {
 public:
  StreamOrdered() : Contender("cudaMallocAsync") {
    CHECK_CUDA(cudaDeviceGetDefaultMemPool(&pool_, 0));
    uint64_t everything = UINT64_MAX;
    CHECK_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &everything));
  }

  void* allocate(size_t size, cudaStream_t stream) override {
    void* address = nullptr;
    CHECK_CUDA(cudaMallocAsync(&address, size, stream));
    return address;
  }
  void free(void* address, cudaStream_t stream) override {
    CHECK_CUDA(cudaFreeAsync(address, stream));
  }
  void empty() override {
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaMemPoolTrimTo(pool_, 0));
  }

 private:
  cudaMemPool_t pool_ = nullptr;
};

class Plain final : public Contender {
 public:
  Plain() : Contender("cudaMalloc") {}

  void* allocate(size_t size, cudaStream_t) override {
    void* address = nullptr;
    CHECK_CUDA(cudaMalloc(&address, size));
    return address;
  }
  void free(void* address, cudaStream_t) override { CHECK_CUDA(cudaFree(address)); }
  void empty() override {}
  bool has_cache() const override { return false; }
};

}  // namespace

std::unique_ptr<Contender> make_cachalot(const std::string& name, const std::string& config,
                                         const std::string& driver, const std::string& policy) {
  return std::make_unique<Cachalot>(name, config, driver, policy);
}
std::unique_ptr<Contender> make_torch(const std::string& name, const std::string& config,
                                      const std::string& library) {
  return std::make_unique<Torch>(name, config, library);
}
std::unique_ptr<Contender> make_stream_ordered() { return std::make_unique<StreamOrdered>(); }
std::unique_ptr<Contender> make_plain() { return std::make_unique<Plain>(); }

}  // namespace gpu
