// SPDX-License-Identifier: MIT OR Apache-2.0
// How much may be reserved before idle pages serve [policy P8].
//
// Note [Soft limit]
// Rationale: a cache that only grows keeps what each phase of a program has needed. But a page that moves costs
// more than a new one.
// Approach: a sixteenth more than what was in use at most. Where phases of a program need the same pages again
// and again, each 64 pages that move raise the limit by one: a page more is worth the price of 64 moves.
// Invariants: with thrift the limit is 0.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cachalot {

class SoftLimit {
 public:
  explicit SoftLimit(bool thrift) : thrift_(thrift) {}

  uint64_t bytes() const { return bytes_; }
  // So many bytes are in use.
  void require(uint64_t in_use) {
    if (!thrift_) bytes_ = std::max(bytes_, in_use + in_use / kInUsePerSlack);
  }
  // Idle pages of so many bytes serve. Only the soft limit keeps new ones from it.
  void moved(uint64_t bytes) {
    if (!thrift_) bytes_ += bytes / kMovedPerSlack;
  }
  void reset() { bytes_ = 0; }

 private:
  static constexpr uint64_t kInUsePerSlack = 16;
  static constexpr uint64_t kMovedPerSlack = 64;

  bool thrift_;
  uint64_t bytes_ = 0;
};

}  // namespace cachalot
