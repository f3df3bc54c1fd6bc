// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/cuda_contexts.h"

namespace cachalot::cuda {

Contexts::Contexts(const Library& library, int device_count)
    : library_(library), contexts_(static_cast<size_t>(device_count)) {}

// A driver that is being torn down refuses; there is nothing left to give back then.
Contexts::~Contexts() {
  if (is_in_forked_child()) return;
  for (size_t i = 0; i < contexts_.size(); i++) {
    DeviceOrdinal ordinal = 0;
    if (contexts_[i] != nullptr && library_.cuDeviceGet(&ordinal, static_cast<int>(i)) == 0)
      library_.cuDevicePrimaryCtxRelease(ordinal);
  }
}

Result Contexts::get(int device, Context* context) {
  if (is_in_forked_child()) return kNotInitialized;
  const std::lock_guard guard(lock_);
  Context& known = contexts_[static_cast<size_t>(device)];
  if (known == nullptr) {
    DeviceOrdinal ordinal = 0;
    if (const Result code = library_.cuDeviceGet(&ordinal, device)) return code;
    if (const Result code = library_.cuDevicePrimaryCtxRetain(&known, ordinal)) {
      known = nullptr;
      return code;
    }
  }
  *context = known;
  return 0;
}

CurrentContext::CurrentContext(const Library& library, Contexts& contexts, int device)
    : library_(library) {
  Context context = nullptr;
  code_ = contexts.get(device, &context);
  if (code_ != 0) return;
  Context current = nullptr;
  if (library_.cuCtxGetCurrent(&current) == 0 && current == context) return;
  code_ = library_.cuCtxPushCurrent(context);
  is_pushed_ = code_ == 0;
}

CurrentContext::~CurrentContext() {
  Context popped = nullptr;
  if (is_pushed_) library_.cuCtxPopCurrent(&popped);
}

}  // namespace cachalot::cuda
