// SPDX-License-Identifier: MIT OR Apache-2.0
// The primary contexts of the devices: retained at their first use, given back at the end, and
// current on a thread only while a call of ours needs them.
#pragma once

#include <vector>

#include "base/mutex.h"
#include "device/cuda_library.h"
#include "device/fork_mark.h"

namespace cachalot::cuda {

class Contexts {
 public:
  // holds: else the caller's own reference to each context is all that there is.
  Contexts(const Library& library, int device_count, bool holds = true);
  ~Contexts();
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;

  int device_count() const { return static_cast<int>(primaries_.size()); }
  // CUDA does not work in a child that was forked after it was started.
  bool is_in_forked_child() const { return fork_mark_.is_in_child(); }
  // The context of a device.
  Result get(int device, Context* context);

 private:
  struct Primary {
    DeviceOrdinal ordinal = 0;
    Context context = nullptr;  // null: not retained yet
  };

  const Library& library_;
  const bool holds_;
  const ForkMark fork_mark_;
  Mutex lock_{LockRank::kCudaContexts};
  std::vector<Primary> primaries_;  // of the devices
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

}  // namespace cachalot::cuda
