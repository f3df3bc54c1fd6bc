// SPDX-License-Identifier: MIT OR Apache-2.0
// Options as a program would be given them: PyTorch's option string, and a policy of cachalot's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cachalot/cachalot.h"

namespace cachalot::cli {

// The number behind a key of an option string; 0 where it is missing.
double number_behind(const std::string& config, std::string_view key);

struct OptionString {
  std::string config;         // "": the defaults
  std::string policy;         // as --policy takes it; "": PyTorch's decisions
  bool is_of_search = false;  // else somebody has asked for it

  bool is_of_pytorch() const { return policy.empty(); }
  // Whether decisions depend on how large the device is, also where it is never full.
  bool depends_on_device_size() const;
  // Of the limit, from which on garbage is collected; 1 without.
  double collection_threshold() const;
  std::string name() const;
  bool operator==(const OptionString& other) const {
    return config == other.config && policy == other.policy;
  }
};

// The options that decide where blocks lie, of PyTorch from 2.11 on. What is left out has its default.
struct PlacementOptions {
  bool expandable_segments = false;
  std::optional<uint32_t> max_split_size_mb;
  std::optional<uint32_t> max_non_split_rounding_mb;  // only with max_split_size_mb
  std::optional<uint32_t> large_segment_size_mb;
  std::optional<uint32_t>
      garbage_collection_percent;  // has a limit set as well, without which it does nothing
  uint32_t roundup_divisions = 1;  // of sizes that are not named below; 1: off
  std::map<uint32_t, uint32_t>
      roundup_by_size_mb;  // divisions of the sizes from so many MiB up to twice that

  std::string text() const;
};

}  // namespace cachalot::cli
