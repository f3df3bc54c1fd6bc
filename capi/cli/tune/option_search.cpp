// SPDX-License-Identifier: MIT OR Apache-2.0
#include "option_search.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "../failure.h"

namespace cachalot::cli {
namespace {

constexpr size_t kBatch = 16;  // of a round; what is found does not depend on the number of threads
constexpr size_t kKept = 4;    // strings of each kind of segments, that others are made of
constexpr double kWorthALook = 1.01;
constexpr size_t kMostAttempts = 400;  // to find a string that was not tried
constexpr uint32_t kLeastSegmentMb = 11;
constexpr uint32_t kSegmentMb = 20;
constexpr uint32_t kLastIntervalMb = 32768;  // of the list of roundings

const std::vector<uint32_t> kSegmentSizes{11, 12, 14,  16,  24,  32,  40,  48,
                                          64, 96, 128, 192, 256, 384, 512, 1024};
const std::vector<uint32_t> kSplitLimits{20,  24,  28,  32,  40,  48,  64,   80,   96,   128,
                                         192, 256, 320, 384, 512, 768, 1024, 1536, 2048, 4096};
const std::vector<uint32_t> kDivisions{2, 4, 8, 16, 32, 64};
const std::vector<uint32_t> kCollections{50, 60, 70, 80, 90, 95};

// Blocks of expandable segments know no split limit, and both options together can reserve without bound
// (docs/config.md); their pages are not collected, and the driver makes them of whole 2 MiB.
void mend(PlacementOptions* options) {
  if (options->expandable_segments) {
    options->max_split_size_mb.reset();
    options->garbage_collection_percent.reset();
    if (options->large_segment_size_mb)
      *options->large_segment_size_mb += *options->large_segment_size_mb % 2;
  }
  const uint32_t segment = options->large_segment_size_mb.value_or(kSegmentMb);
  if (options->max_split_size_mb && *options->max_split_size_mb < segment)
    options->max_split_size_mb = segment;
  if (!options->max_split_size_mb) options->max_non_split_rounding_mb.reset();
  if (options->max_non_split_rounding_mb && *options->max_non_split_rounding_mb < segment)
    options->max_non_split_rounding_mb = segment;
}

// What is left of options when one of them is left out, for each of them.
std::vector<PlacementOptions> simpler(const PlacementOptions& options) {
  std::vector<PlacementOptions> all;
  const auto without = [&](auto change) {
    PlacementOptions rest = options;
    change(rest);
    mend(&rest);
    if (rest.text() != options.text()) all.push_back(rest);
  };
  without([](PlacementOptions& rest) { rest.roundup_by_size_mb.clear(); });
  for (const auto& entry : options.roundup_by_size_mb)
    without([&](PlacementOptions& rest) { rest.roundup_by_size_mb.erase(entry.first); });
  without([](PlacementOptions& rest) { rest.roundup_divisions = 1; });
  without([](PlacementOptions& rest) { rest.garbage_collection_percent.reset(); });
  without([](PlacementOptions& rest) { rest.max_non_split_rounding_mb.reset(); });
  without([](PlacementOptions& rest) { rest.large_segment_size_mb.reset(); });
  without([](PlacementOptions& rest) { rest.max_split_size_mb.reset(); });
  without([](PlacementOptions& rest) { rest.expandable_segments = false; });
  return all;
}

std::vector<OptionSearch::Found> without_repeats(const std::vector<OptionSearch::Found>& all) {
  std::vector<OptionSearch::Found> kept;
  std::set<std::string> texts;
  for (const OptionSearch::Found& found : all)
    if (!found.config.empty() && texts.insert(found.config).second) kept.push_back(found);
  return kept;
}

}  // namespace

OptionSearch::OptionSearch(const TunedRun& run, uint64_t best, const SearchLimits& limits)
    : run_(run),
      limits_(limits),
      sizes_(request_sizes(run.trace())),
      random_(limits.seed),
      first_bound_(static_cast<uint64_t>(kWorthALook * static_cast<double>(best))) {}

std::vector<OptionSearch::Found> OptionSearch::search(Jobs* jobs, const std::string& label) {
  while (tried_.size() < limits_.strings && !Cancellation::is_set()) {
    const auto options = next_batch(std::min(kBatch, limits_.strings - tried_.size()));
    if (options.empty()) break;
    std::vector<std::optional<Found>> found(options.size());
    std::vector<std::function<void()>> work;
    for (size_t i = 0; i < options.size(); i++)
      work.emplace_back([this, &found, &options, i] { found[i] = try_out(options[i]); });
    jobs->run(label, work);
    for (const auto& result : found)
      if (result) keep(*result);
  }
  std::vector<std::function<void()>> work;
  for (Found& found : best_) work.emplace_back([this, &found] { simplify(&found); });
  jobs->run(label, work);
  return without_repeats(best_);
}

std::vector<PlacementOptions> OptionSearch::next_batch(size_t count) {
  std::vector<PlacementOptions> batch;
  for (size_t i = 0; batch.size() < count && i < kMostAttempts; i++)
    if (const auto options = proposal()) batch.push_back(*options);
  return batch;
}

std::optional<PlacementOptions> OptionSearch::proposal() {
  PlacementOptions options = parent();
  if (!best_.empty() && chance(0.2))
    options = cross(options, parent());
  else
    change(&options);
  while (chance(0.3)) change(&options);
  mend(&options);
  const std::string text = options.text();
  if (text.empty() || !tried_.insert(text).second) return {};
  return options;
}

// One of the best, or one of the two that everybody begins with.
PlacementOptions OptionSearch::parent() {
  if (best_.empty() || chance(0.15)) return {.expandable_segments = chance(0.5)};
  return best_[std::uniform_int_distribution<size_t>(0, best_.size() - 1)(random_)].options;
}

void OptionSearch::change(PlacementOptions* options) {
  switch (std::uniform_int_distribution<int>(0, 9)(random_)) {
    case 0:
      options->expandable_segments = !options->expandable_segments;
      return;
    case 1:
    case 2:
    case 3:
      return change_limit(options);
    case 4:
    case 5:
      if (options->large_segment_size_mb && chance(0.25))
        options->large_segment_size_mb.reset();
      else
        options->large_segment_size_mb = pick(kSegmentSizes);
      return;
    case 6:
      if (options->garbage_collection_percent)
        options->garbage_collection_percent.reset();
      else
        options->garbage_collection_percent = pick(kCollections);
      return;
    default:
      return change_roundup(options);
  }
}

void OptionSearch::change_limit(PlacementOptions* options) {
  if (options->max_split_size_mb && chance(0.2)) return options->max_split_size_mb.reset();
  if (options->max_split_size_mb && chance(0.3)) {
    options->max_non_split_rounding_mb = pick(kSplitLimits);
    return;
  }
  options->expandable_segments = false;
  const bool is_of_program = !sizes_.limits_mb.empty() && chance(0.7);
  options->max_split_size_mb =
      std::max(kLeastSegmentMb, pick(is_of_program ? sizes_.limits_mb : kSplitLimits));
}

void OptionSearch::change_roundup(PlacementOptions* options) {
  if (!options->roundup_by_size_mb.empty() && chance(0.25))
    return options->roundup_by_size_mb.clear();
  if (sizes_.mixed_intervals_mb.empty() || chance(0.4)) {
    options->roundup_divisions = chance(0.25) ? 1 : pick(kDivisions);
    return;
  }
  const uint32_t interval = std::min(kLastIntervalMb, pick(sizes_.mixed_intervals_mb));
  // The first entry of a list governs all smaller sizes too: they get one of their own.
  if (options->roundup_by_size_mb.empty() && interval > 1)
    options->roundup_by_size_mb[interval / 2] = options->roundup_divisions;
  options->roundup_by_size_mb[interval] = pick(kDivisions);
  // Sizes between the entries would else follow the one before.
  const uint32_t next = interval * 2;
  if (next < kLastIntervalMb && options->roundup_by_size_mb.count(next) == 0)
    options->roundup_by_size_mb[next] = options->roundup_divisions;
}

PlacementOptions OptionSearch::cross(const PlacementOptions& a, const PlacementOptions& b) {
  PlacementOptions child = a;
  if (chance(0.5)) child.expandable_segments = b.expandable_segments;
  if (chance(0.5)) {
    child.max_split_size_mb = b.max_split_size_mb;
    child.max_non_split_rounding_mb = b.max_non_split_rounding_mb;
  }
  if (chance(0.5)) child.large_segment_size_mb = b.large_segment_size_mb;
  if (chance(0.5)) child.garbage_collection_percent = b.garbage_collection_percent;
  if (chance(0.5)) {
    child.roundup_divisions = b.roundup_divisions;
    child.roundup_by_size_mb = b.roundup_by_size_mb;
  }
  return child;
}

std::optional<OptionSearch::Found> OptionSearch::try_out(const PlacementOptions& options) const {
  const OptionString string{.config = options.text(), .policy = "", .is_of_search = true};
  const uint64_t below = one_step_below(bound(options.expandable_segments));
  const Trial first = run_.run_until_failure(string, below);
  if (!first.fits()) return {};
  return Found{options, string.config, smallest_capacity_below(run_, string, first)};
}

void OptionSearch::keep(const Found& found) {
  best_.push_back(found);
  std::stable_sort(best_.begin(), best_.end(), [](const Found& a, const Found& b) {
    return a.capacity.fits < b.capacity.fits;
  });
  if (count(found.options.expandable_segments) > kKept)
    best_.erase(worst(found.options.expandable_segments));
}

size_t OptionSearch::count(bool expandable) const {
  return static_cast<size_t>(std::count_if(best_.begin(), best_.end(), [=](const Found& found) {
    return found.options.expandable_segments == expandable;
  }));
}

// pre: there is one.
std::vector<OptionSearch::Found>::const_iterator OptionSearch::worst(bool expandable) const {
  const auto last = std::find_if(best_.rbegin(), best_.rend(), [=](const Found& found) {
    return found.options.expandable_segments == expandable;
  });
  return std::prev(last.base());
}

// What a string has to do better than to be kept.
uint64_t OptionSearch::bound(bool expandable) const {
  if (count(expandable) < kKept) return first_bound_;
  return std::min(first_bound_, worst(expandable)->capacity.fits);
}

void OptionSearch::simplify(Found* found) const {
  bool is_simpler = true;
  while (is_simpler && !Cancellation::is_set()) {
    is_simpler = false;
    for (const PlacementOptions& options : simpler(found->options)) {
      const OptionString string{.config = options.text(), .policy = "", .is_of_search = true};
      const Trial trial = run_.run_until_failure(string, found->capacity.fits);
      if (!trial.fits()) continue;
      const SmallestCapacity capacity = smallest_capacity_below(run_, string, trial);
      if (capacity.fits > found->capacity.fits) continue;
      *found = {options, string.config, capacity};
      is_simpler = true;
      break;
    }
  }
}

uint32_t OptionSearch::pick(const std::vector<uint32_t>& values) {
  return values[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random_)];
}

}  // namespace cachalot::cli
