// SPDX-License-Identifier: MIT OR Apache-2.0
// The contexts of the devices: current on a thread only while a call of ours needs them. They are the primary ones,
// retained at their first use and given back at the end, unless the caller gives one.
#pragma once

#include <optional>
#include <vector>

#include "base/mutex.h"
#include "device/cuda_library.h"
#include "device/fork_mark.h"

namespace cachalot::cuda {

// Takes the place of its device's primary context. The caller holds it, and may end it.
struct GivenContext {
  int device = 0;
  Context context = nullptr;
};

class Contexts {
 public:
  // given: then no reference to another context is kept either.
  Contexts(const Library& library, int device_count, std::optional<GivenContext> given = {});
  ~Contexts();
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;

  int device_count() const { return static_cast<int>(contexts_.size()); }
  // CUDA does not work in a child that was forked after it was started.
  bool is_in_forked_child() const { return fork_mark_.is_in_child(); }
  // Whether this has references to them.
  bool are_held() const { return holds_; }
  // A device whose context is there already, or the first one.
  int device_in_use();
  // The context of a device.
  Result get(int device, Context* context);
  // Gives up the reference to a device's context, which get() takes again. pre: no call is made with it meanwhile.
  void release(int device);

 private:
  struct OfDevice {
    DeviceOrdinal ordinal = 0;
    Context context = nullptr;  // null: not retained yet
  };

  const Library& library_;
  const bool holds_;
  const ForkMark fork_mark_;
  Mutex lock_{LockRank::kCudaContexts};
  std::vector<OfDevice> contexts_;
};

// Makes a device's context current on the calling thread, and puts back what was current before.
class CurrentContext {
 public:
  CurrentContext(const Library& library, Contexts& contexts, int device);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  // What failed on the way; then no call may be made.
  Result code() const { return code_; }

 private:
  const Library& library_;
  bool is_pushed_ = false;
  Result code_ = 0;
};

// Makes a call with a device's context current.
template <class Call>
Result on(const Library& library, Contexts& contexts, int device, Call call) {
  const CurrentContext current(library, contexts, device);
  return current.code() != 0 ? current.code() : call();
}

}  // namespace cachalot::cuda
