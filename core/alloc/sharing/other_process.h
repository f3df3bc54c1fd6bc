// SPDX-License-Identifier: MIT OR Apache-2.0
// Descriptors that another process has.
#pragma once

#include "base/descriptor.h"
#include "device/device.h"

namespace cachalot {

// Takes copies of another process's descriptors [exp 7.4]. Throws Error with the
// reference's texts where the process is gone, has no such descriptor, or the system does
// not allow it.
class OtherProcess {
 public:
  explicit OtherProcess(int process);
  Descriptor take(int descriptor) const;

 private:
  Descriptor process_;
};

}  // namespace cachalot
