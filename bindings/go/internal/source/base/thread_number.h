// SPDX-License-Identifier: MIT OR Apache-2.0
// Which thread this is.
#pragma once

#include <cstdint>

namespace cachalot {

// A number above 0 that no other thread of the process has or had. (The system gives the id of a
// thread that has ended to a new one.) A forked child's thread keeps the number that it had in the
// parent. Also for threads that are about to end.
uint64_t this_thread_number();

}  // namespace cachalot
