// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/sharing/other_process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace cachalot {
namespace {

// The C library has a function for this call only since a short while.
#ifdef SYS_pidfd_getfd
constexpr long kTakeDescriptor = SYS_pidfd_getfd;
#else
constexpr long kTakeDescriptor = 438;
#endif

[[noreturn]] void throw_refusal(const char* call, int error, const Wording& wording) {
  if (error == ENOSYS) {
    throw_not_supported(std::string("The kernel on this machine does not support the ") + call +
                        wording.no_system_call);
  }
  // The reference has no blank behind the first of the two.
  const bool is_open = std::string_view(call) == "pidfd_open";
  throw_invalid_state(std::string(call) + (is_open ? ":" : ": ") +
                      std::generic_category().message(error));
}

}  // namespace

OtherProcess::OtherProcess(int process, const Wording& wording)
    : process_(Descriptor::of_process(process)), wording_(wording) {
  if (!process_.is_open()) throw_refusal("pidfd_open", errno, wording);
}

Descriptor OtherProcess::take(int descriptor) const {
  Descriptor taken(static_cast<int>(::syscall(kTakeDescriptor, process_.number(), descriptor, 0)));
  if (!taken.is_open()) throw_refusal("pidfd_getfd", errno, wording_);
  return taken;
}

}  // namespace cachalot
