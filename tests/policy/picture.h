// SPDX-License-Identifier: MIT OR Apache-2.0
// What the model and the library are compared by, besides their driver calls.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "alloc/stats/policy_stats.h"
#include "base/error.h"
#include "device/device.h"

namespace cachalot::policy_model {

// The clock at the last work of each stream; no entry: none that has to be waited for.
using Stamps = std::map<Stream, uint64_t>;

// In a wait: it was for all streams.
inline constexpr Stream kAllStreams = ~Stream{0};

enum class State { kUsed, kWaiting, kCached, kHole, kWaitingHole };

struct BlockRow {
  Address begin;
  uint64_t size;
  State state;
  Stream user = 0;     // of a used or waiting block
  Stamps stamps = {};  // of a cached one

  bool operator==(const BlockRow&) const = default;
};

// All blocks by address, and who has waited for whom.
struct Picture {
  std::vector<BlockRow> blocks;
  uint64_t clock = 0;
  std::map<std::pair<Stream, Stream>, uint64_t> waited = {};
  std::map<Stream, uint64_t> finished = {};

  bool operator==(const Picture&) const = default;
};

// What a call gave.
struct Answer {
  Status status = Status::kOk;
  DriverCode code = kSuccess;  // of the driver, where it is to blame
  Address address = 0;
  OutOfMemory shortage = {};  // of a request out of memory

  bool operator==(const Answer&) const = default;
};

// A statistic of one size class, or of both.
struct Count {
  int64_t current = 0;
  int64_t peak = 0;

  void add(int64_t amount) {
    current += amount;
    if (current > peak) peak = current;
  }
  bool operator==(const Count&) const = default;
};

// Both classes together, small, large.
using Counts = std::array<Count, 3>;

struct Numbers {
  Counts allocated, active, requested, reserved;  // bytes
  Counts used_blocks, active_blocks;
  uint64_t retries = 0, out_of_memory = 0;
  PolicyStats policy;

  bool operator==(const Numbers&) const = default;
};

std::string text_of(const Answer& answer);
std::string text_of(const OutOfMemory& shortage);
std::string all_of(const Picture& picture);
// The lines in which two differ.
std::string difference_of(const Picture& model, const Picture& library);
std::string difference_of(const Numbers& model, const Numbers& library);

}  // namespace cachalot::policy_model
