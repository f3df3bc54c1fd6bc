// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls of a caller's functions, and of Python's, from threads that may be ended within them.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

namespace cachalot::capi {

// A thread may be ended within a callback by the unwinding of its stack: Python ends its daemon threads so while the
// interpreter exits. Nothing of ours can be unwound so, since guard() lets nothing through: the process would end by
// SIGABRT. So the thread waits here for the end of the process. pre: it holds no lock that others need until then.
template <class Call>
auto call_caller(Call call) {
#ifdef __GLIBCXX__  // others end a thread without its stack
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
#else
  return call();
#endif
}

}  // namespace cachalot::capi
