// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measured_device.h"

#include <dlfcn.h>

#include <array>
#include <chrono>

#include "../failure.h"
#include "driver_functions.h"

namespace cachalot::cli {
namespace {

constexpr size_t kScratch = size_t{256} << 20;  // filled in 0.1 ms by an H100

}  // namespace

struct MeasuredDevice::Functions {
#define CACHALOT_MEASURED_POINTER(name, symbol, ...) driver::name##_form* name = nullptr;
  CACHALOT_MEASURED_FUNCTIONS(CACHALOT_MEASURED_POINTER)
#undef CACHALOT_MEASURED_POINTER

  void find(void* library) {
#define CACHALOT_MEASURED_FIND(name, symbol, ...)                         \
  name = reinterpret_cast<driver::name##_form*>(dlsym(library, #symbol)); \
  if (name == nullptr) throw Failure("the CUDA driver has no " #symbol);
    CACHALOT_MEASURED_FUNCTIONS(CACHALOT_MEASURED_FIND)
#undef CACHALOT_MEASURED_FIND
  }
};

MeasuredDevice::MeasuredDevice(int ordinal) : functions_(std::make_unique<Functions>()) {
  library_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) throw Failure(std::string("there is no CUDA driver: ") + dlerror());
  functions_->find(library_);
  driver::Context context = nullptr;
  check(functions_->cuInit(0), "cuInit");
  check(functions_->cuDeviceGet(&device_, ordinal), "cuDeviceGet");
  check(functions_->cuDevicePrimaryCtxRetain(&context, device_), "cuDevicePrimaryCtxRetain");
  check(functions_->cuCtxSetCurrent(context), "cuCtxSetCurrent");
  check(functions_->cuMemAlloc(&scratch_, kScratch), "cuMemAlloc");
}

MeasuredDevice::~MeasuredDevice() {
  functions_->cuMemFree(scratch_);
  functions_->cuDevicePrimaryCtxRelease(device_);
}

std::string MeasuredDevice::name() const {
  std::array<char, 256> text{};
  check(functions_->cuDeviceGetName(text.data(), text.size(), device_), "cuDeviceGetName");
  return text.data();
}

int MeasuredDevice::driver_version() const {
  int version = 0;
  check(functions_->cuDriverGetVersion(&version), "cuDriverGetVersion");
  return version;
}

uint64_t MeasuredDevice::free_bytes() const {
  size_t free = 0;
  size_t total = 0;
  check(functions_->cuMemGetInfo(&free, &total), "cuMemGetInfo");
  return free;
}

void MeasuredDevice::check(int code, const char* function) const {
  if (code == 0) return;
  const char* text = nullptr;
  functions_->cuGetErrorString(code, &text);
  throw Failure(std::string(function) + ": " + (text != nullptr ? text : "unknown error") + " (" +
                std::to_string(code) + ")");
}

void MeasuredDevice::work() const {
  check(functions_->cuMemsetD8Async(scratch_, 0, kScratch, nullptr), "cuMemsetD8Async");
  memory_.resize(touched_);
  for (size_t i = 0; i < touched_; i += 64) memory_[i]++;
}

void MeasuredDevice::work_and_wait() const {
  work();
  check(functions_->cuCtxSynchronize(), "cuCtxSynchronize");
}

template <class Call>
void MeasuredDevice::time(const char* function, Samples* samples, Call call) const {
  const auto begin = std::chrono::steady_clock::now();
  const int code = call();
  const auto end = std::chrono::steady_clock::now();
  check(code, function);
  (*samples)[function].push_back(std::chrono::duration<double, std::nano>(end - begin).count());
}

void MeasuredDevice::time_plain(uint64_t size, unsigned blocks, Samples* samples) const {
  std::vector<uint64_t> addresses(blocks);
  for (uint64_t& address : addresses) {
    work();
    time("cuMemAlloc", samples, [&] { return functions_->cuMemAlloc(&address, size); });
  }
  for (const uint64_t address : addresses) {
    work_and_wait();
    time("cuMemFree", samples, [&] { return functions_->cuMemFree(address); });
  }
}

void MeasuredDevice::time_virtual(uint64_t size, unsigned blocks, Samples* samples) const {
  const driver::Location location{driver::kDeviceLocation, device_};
  const driver::AllocationProperty property{driver::kPinned, 0, location, nullptr, {}};
  const driver::AccessDescription access{location, driver::kReadWrite};
  const uint64_t span = size * blocks;
  uint64_t range = 0;
  std::vector<unsigned long long> handles(blocks);
  time("cuMemAddressReserve", samples,
       [&] { return functions_->cuMemAddressReserve(&range, span, 0, 0, 0); });
  for (unsigned i = 0; i < blocks; i++) {
    const uint64_t address = range + i * size;
    work();
    time("cuMemCreate", samples,
         [&] { return functions_->cuMemCreate(&handles[i], size, &property, 0); });
    time("cuMemMap", samples,
         [&] { return functions_->cuMemMap(address, size, 0, handles[i], 0); });
    time("cuMemSetAccess", samples,
         [&] { return functions_->cuMemSetAccess(address, size, &access, 1); });
  }
  for (unsigned i = 0; i < blocks; i++) {
    const uint64_t address = range + i * size;
    work_and_wait();
    time("cuMemUnmap", samples, [&] { return functions_->cuMemUnmap(address, size); });
    time("cuMemRelease", samples, [&] { return functions_->cuMemRelease(handles[i]); });
  }
  time("cuMemAddressFree", samples, [&] { return functions_->cuMemAddressFree(range, span); });
}

}  // namespace cachalot::cli
