// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/sync/slow_path_flags.h"

#include "base/pause.h"

namespace cachalot {

// Spins first, since most holds are shorter than a sleep. A thread that has been woken and finds
// the device held again counts as starved, and later holds let it go first (Note [Starved
// threads]).
uint32_t SlowPathFlags::wait_for_end() const {
  uint32_t bits = load();
  for (int spins = 0; spins < kSpins && is_held_for_a_moment(bits); spins++) {
    pause_briefly(4);
    bits = load();
  }
  bool is_starved = false;
  waiting_.fetch_add(1);
  while (is_held_for_a_moment(bits)) {
    futex_wait(bits_, bits, kNoTimeout);
    bits = load();
    if (is_starved || !is_held_for_a_moment(bits)) continue;
    is_starved = true;
    starved_.add();
  }
  waiting_.fetch_sub(1);
  if (is_starved) starved_.remove();
  return bits;
}

}  // namespace cachalot
