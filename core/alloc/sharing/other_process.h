// SPDX-License-Identifier: MIT OR Apache-2.0
// Descriptors that another process has.
#pragma once

#include "alloc/config/wording.h"
#include "base/descriptor.h"
#include "device/device.h"

namespace cachalot {

// Takes copies of another process's descriptors [exp 7.4]. Throws Error where the process is gone, has no such
// descriptor, or the system does not allow it.
class OtherProcess {
 public:
  OtherProcess(int process, const Wording& wording);
  Descriptor take(int descriptor) const;

 private:
  Descriptor process_;
  const Wording& wording_;
};

}  // namespace cachalot
