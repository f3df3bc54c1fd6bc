// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/thread_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cachalot {
namespace {

bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

// The system refuses it until the process has registered, which is asked of the system and not remembered: a static
// that a thread is filling while another one forks would never be filled in the child.
bool barrier_on_all_threads() {
  return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
         (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
          membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

}  // namespace cachalot
