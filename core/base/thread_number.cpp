// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/thread_number.h"

#include <atomic>

namespace cachalot {
namespace {

std::atomic<uint64_t> last_thread{0};
thread_local uint64_t own_number = 0;  // not asked for yet

}  // namespace

uint64_t this_thread_number() {
  if (own_number == 0) own_number = ++last_thread;
  return own_number;
}

}  // namespace cachalot
