// SPDX-License-Identifier: MIT OR Apache-2.0
// A search for option strings under which a recorded run finishes on a small device.
//
// It is an evolution over PlacementOptions: in each round a batch of strings comes from the best ones so far, by one or two
// changes each, or by taking some options of one and the rest of another. Values come from the sizes that the program asks
// for. Plain segments and expandable ones are kept apart, since the best of
// one kind can have a price that the other does not. A string is first tried one step below the worst that is kept. Most fail there, early in the run. The others go
// on downwards. What is found this way has not been looked at on larger devices: smallest_capacity() does that for the
// strings that are kept.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "jobs.h"
#include "option_string.h"
#include "request_sizes.h"
#include "smallest_capacity.h"
#include "trial.h"

namespace cachalot::cli {

struct SearchLimits {
  size_t strings = 160;  // to be tried
  uint64_t seed = 1;
};

class OptionSearch {
 public:
  struct Found {
    PlacementOptions options;
    std::string config;
    SmallestCapacity capacity;  // failures above are not known
  };

  // best: the capacity that is to be beaten.
  OptionSearch(const TunedRun& run, uint64_t best, const SearchLimits& limits);

  // Gives the best strings, the smallest capacity first, each without the options that do nothing for it. What the
  // user stops is as good as it is.
  std::vector<Found> search(Jobs* jobs, const std::string& label);
  size_t strings_tried() const { return tried_.size(); }

 private:
  std::vector<PlacementOptions> next_batch(size_t count);
  std::optional<PlacementOptions> proposal();
  PlacementOptions parent();
  void change(PlacementOptions* options);
  void change_limit(PlacementOptions* options);
  void change_roundup(PlacementOptions* options);
  PlacementOptions cross(const PlacementOptions& a, const PlacementOptions& b);
  std::optional<Found> try_out(const PlacementOptions& options) const;
  size_t count(bool expandable) const;
  std::vector<Found>::const_iterator worst(bool expandable) const;
  uint64_t bound(bool expandable) const;
  void keep(const Found& found);
  void simplify(Found* found) const;
  uint32_t pick(const std::vector<uint32_t>& values);
  bool chance(double share) { return std::bernoulli_distribution(share)(random_); }

  const TunedRun& run_;
  const SearchLimits limits_;
  RequestSizes sizes_;
  std::mt19937_64 random_;
  uint64_t first_bound_;     // as long as few strings are kept
  std::vector<Found> best_;  // ascending
  std::set<std::string> tried_;
};

}  // namespace cachalot::cli
