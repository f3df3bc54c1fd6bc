// SPDX-License-Identifier: MIT OR Apache-2.0
#include "option_string.h"

#include <cstdlib>
#include <string_view>

namespace cachalot::cli {
namespace {

std::string roundup_list(const PlacementOptions& options) {
  std::string list;
  for (const auto& [size_mb, divisions] : options.roundup_by_size_mb)
    list += std::to_string(size_mb) + ":" + std::to_string(divisions) + ",";
  return "[" + list + ">:" + std::to_string(options.roundup_divisions) + "]";
}

}  // namespace

bool OptionString::depends_on_device_size() const {
  return !is_of_pytorch() || config.find("per_process_memory_fraction") != std::string::npos;
}

double number_behind(const std::string& config, std::string_view key) {
  const std::string start = std::string(key) + ":";
  const size_t at = config.find(start);
  return at == std::string::npos ? 0 : std::atof(config.c_str() + at + start.size());
}

double OptionString::collection_threshold() const {
  const double threshold = number_behind(config, "garbage_collection_threshold");
  return threshold > 0 && threshold < 1 ? threshold : 1;
}

std::string OptionString::name() const {
  std::string options = config.empty() ? "defaults" : config;
  if (is_of_pytorch()) return options;
  return "policy " + policy + (config.empty() ? "" : ", " + options);
}

std::string PlacementOptions::text() const {
  std::string text;
  const auto add = [&](const std::string& pair) { text += (text.empty() ? "" : ",") + pair; };
  if (expandable_segments) add("expandable_segments:True");
  // First, since the limits below are checked against it.
  if (large_segment_size_mb) add("large_segment_size_mb:" + std::to_string(*large_segment_size_mb));
  if (max_split_size_mb) add("max_split_size_mb:" + std::to_string(*max_split_size_mb));
  if (max_split_size_mb && max_non_split_rounding_mb)
    add("max_non_split_rounding_mb:" + std::to_string(*max_non_split_rounding_mb));
  if (!roundup_by_size_mb.empty())
    add("roundup_power2_divisions:" + roundup_list(*this));
  else if (roundup_divisions > 1)
    add("roundup_power2_divisions:" + std::to_string(roundup_divisions));
  if (garbage_collection_percent)
    add("garbage_collection_threshold:0." + std::to_string(*garbage_collection_percent) +
        ",per_process_memory_fraction:0.999");
  return text;
}

}  // namespace cachalot::cli
