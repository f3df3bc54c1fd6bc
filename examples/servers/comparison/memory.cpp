// SPDX-License-Identifier: MIT OR Apache-2.0
#include "memory.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace comparison {
namespace {

// Fields of /proc/self/statm.
enum Field { kResident = 1, kShared = 2, kData = 5, kFields = 7 };

class HostMemory : public Memory {
 public:
  uint64_t used() const override { return pages(kResident) - pages(kShared); }

  void limit(uint64_t bytes) override {
    const rlim_t all = pages(kData) + bytes;
    const rlimit limit{all, all};
    if (::setrlimit(RLIMIT_DATA, &limit) != 0)
      throw std::runtime_error("RLIMIT_DATA cannot be set");
  }

  std::chrono::milliseconds period() const override { return std::chrono::milliseconds(1); }

 private:
  // Bytes. Read without asking for memory, which there may be none of.
  static uint64_t pages(Field field) {
    char text[256] = {};
    const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t length = ::read(file, text, sizeof text - 1);
    ::close(file);
    if (length <= 0) return 0;
    char* next = text;
    uint64_t value = 0;
    for (int i = 0; i <= field; i++) value = std::strtoull(next, &next, 10);
    return value * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  }
};

// Of CUDA's driver, by which asking is cheap; cachalot's own totals ask for the processes' shares, too.
class GpuMemory : public Memory {
 public:
  GpuMemory() {
    void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) throw std::runtime_error(::dlerror());
    const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
    const auto retain =
        reinterpret_cast<int (*)(void**, int)>(::dlsym(driver, "cuDevicePrimaryCtxRetain"));
    use_ = reinterpret_cast<int (*)(void*)>(::dlsym(driver, "cuCtxSetCurrent"));
    ask_ = reinterpret_cast<int (*)(size_t*, size_t*)>(::dlsym(driver, "cuMemGetInfo_v2"));
    take_ = reinterpret_cast<int (*)(uint64_t*, size_t)>(::dlsym(driver, "cuMemAlloc_v2"));
    if (init(0) != 0 || retain(&context_, 0) != 0) throw std::runtime_error("there is no GPU");
  }

  uint64_t used() const override {
    const Info info = ask();
    return info.total - info.free;
  }

  // All other memory is taken, for good.
  void limit(uint64_t bytes) override {
    const Info info = ask();
    uint64_t taken = 0;
    if (info.free <= bytes || take_(&taken, info.free - bytes) != 0)
      throw std::runtime_error("the GPU's memory cannot be limited to that");
  }

  std::chrono::milliseconds period() const override { return std::chrono::milliseconds(20); }

 private:
  struct Info {
    size_t free = 0;
    size_t total = 0;
  };

  Info ask() const {
    Info info;
    if (use_(context_) != 0 || ask_(&info.free, &info.total) != 0)
      throw std::runtime_error("the GPU does not say how much memory it has");
    return info;
  }

  void* context_ = nullptr;
  int (*use_)(void*) = nullptr;
  int (*ask_)(size_t*, size_t*) = nullptr;
  int (*take_)(uint64_t*, size_t) = nullptr;
};

}  // namespace

std::unique_ptr<Memory> make_memory(const std::string& provider) {
  if (provider == "cuda") return std::make_unique<GpuMemory>();
  return std::make_unique<HostMemory>();
}

Sampler::Sampler(const Memory& memory) : memory_(memory) {
  samples_.reserve(1 << 16);
  thread_ = std::thread([this] { watch(); });
}

void Sampler::begin() {
  base_ = memory_.used();
  begin_ = std::chrono::steady_clock::now();
  has_begun_ = true;
}

Sampler::~Sampler() { stop(); }

void Sampler::stop() {
  is_done_ = true;
  if (thread_.joinable()) thread_.join();
}

double Sampler::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void Sampler::watch() {
  constexpr double kSpan = 0.01;
  double due = 0;
  for (; !is_done_; std::this_thread::sleep_for(memory_.period())) {
    if (!has_begun_) continue;
    const uint64_t now = memory_.used();
    const uint64_t bytes = now > base_ ? now - base_ : 0;
    if (bytes > peak_) peak_ = bytes;
    if (seconds() < due || samples_.size() == samples_.capacity()) continue;
    samples_.push_back({seconds(), bytes});
    due = seconds() + kSpan;
  }
}

}  // namespace comparison
