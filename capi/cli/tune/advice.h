// SPDX-License-Identifier: MIT OR Apache-2.0
// What follows from the figures of option strings: which of them are worth a look, which one to take, and what to mind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "option_string.h"
#include "smallest_capacity.h"
#include "trial.h"

namespace cachalot::cli {

// One string, for one run or for several: then of each figure the worst, or the sum.
struct TunedRow {
  OptionString options;
  SmallestCapacity capacity;  // in which every run finishes
  // On the device that was asked for.
  uint64_t out_of_memory = 0;
  uint64_t retries = 0;
  uint64_t driver_calls = 0;
  double cost_ms = 0;
  uint64_t reserved = 0;  // bytes, at the most
  uint64_t left = 0;      // of those that can be used
  bool is_on_front = false;

  bool fits_device() const { return out_of_memory == 0; }
};

// Runs like the recorded ones, each on a device 2 % larger than it would need by the share that the recorded one needed.
struct Variations {
  unsigned runs = 0;
  unsigned finished = 0;
  unsigned finished_by_default = 0;
};

// A recorded run that no string was chosen by.
struct HeldBack {
  std::string file;
  uint64_t requested;
  SmallestCapacity recommended;
  SmallestCapacity defaults;
};

struct Recommendation {
  size_t row;
  std::string reason;
  std::vector<std::string> warnings;
  Variations variations;
};

// Marks the rows that no other row beats: in capacity and cost together.
void mark_front(std::vector<TunedRow>* rows);

// The string to take: of PyTorch's own those that need at most 2 % more than the least, of them the cheapest on the device
// that was asked for, unless it reserves more than twice as much as others there. The defaults where they are among them. Nothing without rows.
std::optional<Recommendation> recommend(const std::vector<TunedRow>& rows);

// What is dangerous about a string in general, however good it looks in one recording. A line each.
std::vector<std::string> warnings_of(const std::string& config);

}  // namespace cachalot::cli
