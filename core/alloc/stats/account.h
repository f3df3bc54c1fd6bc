// SPDX-License-Identifier: MIT OR Apache-2.0
// The account of a shard: what it counts, with its part in the protocols of peaks.h.
//
// Note [Accounts]
// Rationale: an account of its own serves a shard that is busy while other shards are busy. It
// harms a thread that goes from stream to stream: at the peak, each step would recall the headroom
// that the last step borrowed.
// Approach: a shard begins with the shared account. It gets an account of its own when it meets
// another thread at the order lock, or after kOwnAccountRun moves in a row of the shared account
// (shared_account.h). It loses that account when kIdleVisits recalls in a row find it idle.
// Invariants: a shard that uses the shared account has nothing in its own.
#pragma once

#include <atomic>
#include <cstdint>

#include "alloc/stats/counters.h"
#include "alloc/stats/stats_reading.h"

namespace cachalot {

// The lock of the account's shard guards it, or the whole device.
struct Account {
  static constexpr int kIdleVisits = 2;
  static constexpr int64_t kFewFrees = 8;

  // The shard counts here from now on. The account has no headroom, so it has joined the recall.
  void become_own(uint64_t recall_number);
  // A recall that serves a move visits the account. True: the account has been idle for long.
  bool note_visit();

  Counters counters;
  bool is_shared = false;   // the shared account counts for the shard; `counters` is empty
  bool met_others = false;  // at the order lock, since the last visit
  int idle_visits = 0;      // in a row
  // As Counters::frees() gives them.
  int64_t frees_when_visited = 0;
  uint64_t joined = 0;            // the last recall that it returned its headroom to
  uint64_t borrowed_in = 0;       // the period in which it last asked for headroom
  std::atomic<bool> away{false};  // it has no headroom, and its lock is held for long
  PreservedRows preserved;        // made at the first reading
};

}  // namespace cachalot
