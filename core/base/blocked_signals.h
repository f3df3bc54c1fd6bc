// SPDX-License-Identifier: MIT OR Apache-2.0
// Signals are for the program's own threads.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace cachalot {

// A thread that is started meanwhile takes no signals.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace cachalot
