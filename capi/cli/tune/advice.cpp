// SPDX-License-Identifier: MIT OR Apache-2.0
#include "advice.h"

#include <algorithm>

#include "../numbers.h"

namespace cachalot::cli {
namespace {

constexpr double kNearlyEqual = 1.02;

bool beats(const TunedRow& a, const TunedRow& b) {
  if (a.capacity.fits > b.capacity.fits || a.cost_ms > b.cost_ms) return false;
  return a.capacity.fits < b.capacity.fits || a.cost_ms < b.cost_ms;
}

const TunedRow* find_defaults(const std::vector<TunedRow>& rows) {
  const auto found = std::find_if(
      rows.begin(), rows.end(), [](const TunedRow& row) { return row.options == OptionString{}; });
  return found == rows.end() ? nullptr : &*found;
}

// Strings that cost about the same go by their length: what a string does not say cannot surprise.
bool is_preferred(const TunedRow& a, const TunedRow& b) {
  if (a.fits_device() != b.fits_device()) return a.fits_device();
  if (a.reserved * 2 < b.reserved || b.reserved * 2 < a.reserved) return a.reserved < b.reserved;
  const double slack = 0.05 * std::min(a.cost_ms, b.cost_ms);
  if (a.cost_ms + slack < b.cost_ms) return true;
  if (b.cost_ms + slack < a.cost_ms) return false;
  return a.options.config.size() < b.options.config.size();
}

std::string reason_of(const TunedRow& row, const TunedRow* defaults) {
  if (defaults == nullptr)
    return "every run finishes in " + mebibytes(row.capacity.fits) +
           "; the defaults were not looked at";
  if (&row == defaults)
    return "no string of PyTorch's that was tried needs less than " + mebibytes(row.capacity.fits) +
           " by more than 2 %";
  return "every run finishes in " + mebibytes(row.capacity.fits) + ", " +
         ratio(row.capacity.fits, defaults->capacity.fits) + " of the " +
         mebibytes(defaults->capacity.fits) + " of the defaults; its driver calls take " +
         milliseconds(row.cost_ms) + ", those of the defaults " + milliseconds(defaults->cost_ms);
}

bool names(const std::string& config, const char* key) {
  return config.find(std::string(key) + ":") != std::string::npos;
}

}  // namespace

void mark_front(std::vector<TunedRow>* rows) {
  for (TunedRow& row : *rows)
    row.is_on_front = std::none_of(rows->begin(), rows->end(),
                                   [&](const TunedRow& other) { return beats(other, row); });
}

std::optional<Recommendation> recommend(const std::vector<TunedRow>& rows) {
  uint64_t least = UINT64_MAX;
  for (const TunedRow& row : rows)
    if (row.options.is_of_pytorch()) least = std::min(least, row.capacity.fits);
  if (least == UINT64_MAX) return {};
  const auto is_near = [least](const TunedRow& row) {
    return row.options.is_of_pytorch() &&
           static_cast<double>(row.capacity.fits) <= kNearlyEqual * static_cast<double>(least);
  };
  const TunedRow* const defaults = find_defaults(rows);
  const TunedRow* best = defaults != nullptr && is_near(*defaults) ? defaults : nullptr;
  if (best == nullptr)
    for (const TunedRow& row : rows)
      if (is_near(row) && (best == nullptr || is_preferred(row, *best))) best = &row;
  Recommendation advice{static_cast<size_t>(best - rows.data()),
                        reason_of(*best, defaults),
                        warnings_of(best->options.config),
                        {}};
  if (defaults != nullptr && best->reserved / 2 > defaults->reserved)
    advice.warnings.push_back("on the device asked for it reserves " + gibibytes(best->reserved) +
                              ", the defaults " + gibibytes(defaults->reserved));
  return advice;
}

std::vector<std::string> warnings_of(const std::string& config) {
  std::vector<std::string> lines;
  if (config.find("expandable_segments:True") != std::string::npos)
    lines.emplace_back(
        "expandable_segments: libraries that reach into the memory (CUDA IPC, GPUDirect RDMA) can "
        "be slowed down or "
        "refused");
  if (names(config, "expandable_segments") && names(config, "max_split_size_mb"))
    lines.emplace_back(
        "max_split_size_mb with expandable_segments can reserve memory without bound "
        "(pytorch#123548)");
  else if (names(config, "max_split_size_mb"))
    lines.emplace_back(
        "max_split_size_mb: a request above the limit takes a whole block, so large sizes that "
        "vary waste memory and "
        "driver calls");
  if (names(config, "garbage_collection_threshold"))
    lines.emplace_back(
        "garbage_collection_threshold: each cudaFree waits for the work of the device, which this "
        "price does not have");
  if (number_behind(config, "large_segment_size_mb") > 64)
    lines.emplace_back(
        "large_segment_size_mb: each stream and pool takes at least one such segment");
  const double divisions = number_behind(config, "roundup_power2_divisions");
  if (divisions > 1 && divisions < 4)
    lines.emplace_back(
        "roundup_power2_divisions: sizes that are not in the recording can grow by up to half");
  if (config.find(":[") != std::string::npos)
    lines.emplace_back(
        "roundup_power2_divisions: the list is made for the sizes of this recording");
  return lines;
}

}  // namespace cachalot::cli
