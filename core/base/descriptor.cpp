// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/descriptor.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace cachalot {
namespace {

// The C library has a function for this call only since a short while.
#ifdef SYS_pidfd_open
constexpr long kOpenProcess = SYS_pidfd_open;
#else
constexpr long kOpenProcess = 434;
#endif

}  // namespace

Descriptor Descriptor::of_process(int process) {
  return Descriptor(static_cast<int>(::syscall(kOpenProcess, process, 0)));
}

Descriptor::~Descriptor() {
  if (is_open()) ::close(number_);
}

}  // namespace cachalot
