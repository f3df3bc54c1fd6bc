// SPDX-License-Identifier: MIT OR Apache-2.0
#include "request_sizes.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "../numbers.h"
#include "../run.h"

namespace cachalot::cli {
namespace {

constexpr size_t kMostLimits = 24;

// The bytes that were asked for in requests of each size.
using Weights = std::map<uint64_t, uint64_t>;

Weights weights_of(const cachalot_trace* trace) {
  Weights weights;
  for_each_event(trace, [&](const cachalot_trace_event& event) {
    if (event.action == CACHALOT_ACTION_ALLOC && event.size >= kMiB)
      weights[event.size] += event.size;
  });
  return weights;
}

std::vector<uint32_t> limits_of(const Weights& weights) {
  std::vector<std::pair<uint64_t, uint64_t>> heaviest;  // bytes, size
  for (const auto& [size, bytes] : weights) heaviest.emplace_back(bytes, size);
  std::sort(heaviest.rbegin(), heaviest.rend());
  std::set<uint32_t> limits;
  for (const auto& [bytes, size] : heaviest) {
    if (limits.size() >= kMostLimits) break;
    limits.insert(static_cast<uint32_t>(size / kMiB));
    limits.insert(static_cast<uint32_t>(size / kMiB + 1));
  }
  return {limits.begin(), limits.end()};
}

std::vector<uint32_t> mixed_intervals_of(const Weights& weights) {
  std::map<uint32_t, size_t> sizes;
  for (const auto& [size, bytes] : weights)
    sizes[static_cast<uint32_t>(std::bit_floor(size / kMiB))]++;
  std::vector<uint32_t> mixed;
  for (const auto& [interval, count] : sizes)
    if (count > 1) mixed.push_back(interval);
  return mixed;
}

}  // namespace

RequestSizes request_sizes(const cachalot_trace* trace) {
  const Weights weights = weights_of(trace);
  return {limits_of(weights), mixed_intervals_of(weights)};
}

}  // namespace cachalot::cli
