// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device/cuda_contexts.h"

#include <algorithm>

#include "base/assert.h"

namespace cachalot::cuda {

Contexts::Contexts(const Library& library, int device_count, std::optional<GivenContext> given)
    : library_(library), holds_(!given), contexts_(static_cast<size_t>(device_count)) {
  if (given) contexts_.at(static_cast<size_t>(given->device)).context = given->context;
}

// A driver that is being torn down refuses; there is nothing left to give back then.
Contexts::~Contexts() {
  if (is_in_forked_child() || !holds_) return;
  for (const OfDevice& of : contexts_) {
    if (of.context != nullptr) library_.cuDevicePrimaryCtxRelease(of.ordinal);
  }
}

int Contexts::device_in_use() {
  const std::lock_guard guard(lock_);
  const auto has_context = [](const OfDevice& of) { return of.context != nullptr; };
  const auto found = std::find_if(contexts_.begin(), contexts_.end(), has_context);
  return found == contexts_.end() ? 0 : static_cast<int>(found - contexts_.begin());
}

Result Contexts::get(int device, Context* context) {
  if (is_in_forked_child()) return kNotInitialized;
  CACHALOT_ASSERT(1, device >= 0 && device < device_count());
  const std::lock_guard guard(lock_);
  OfDevice& of = contexts_[static_cast<size_t>(device)];
  if (of.context == nullptr) {
    if (const Result code = library_.cuDeviceGet(&of.ordinal, device)) return code;
    Context retained = nullptr;
    if (const Result code = library_.cuDevicePrimaryCtxRetain(&retained, of.ordinal)) return code;
    if (!holds_) library_.cuDevicePrimaryCtxRelease(of.ordinal);
    of.context = retained;
  }
  *context = of.context;
  return 0;
}

// A context that is given is its owner's, and no other takes its place.
void Contexts::release(int device) {
  if (is_in_forked_child() || !holds_) return;
  CACHALOT_ASSERT(1, device >= 0 && device < device_count());
  const std::lock_guard guard(lock_);
  OfDevice& of = contexts_[static_cast<size_t>(device)];
  if (of.context != nullptr) library_.cuDevicePrimaryCtxRelease(of.ordinal);
  of.context = nullptr;
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
