// SPDX-License-Identifier: MIT OR Apache-2.0
#include "smallest_capacity.h"

#include "../failure.h"

namespace cachalot::cli {
namespace {

// The smallest device on which nothing differs from a run that has finished. Where decisions do not depend on the
// size, a driver's call that failed there fails on all smaller devices too, and those that succeeded never had
// more than the peak.
uint64_t same_down_to(const Trial& trial, const OptionString& options) {
  return options.depends_on_device_size() ? trial.capacity : trial.peak_device;
}

// A device on which no limit that depends on its size is met.
uint64_t out_of_reach(uint64_t peak, const OptionString& options) {
  return static_cast<uint64_t>(static_cast<double>(peak) / (0.99 * options.collection_threshold()));
}

}  // namespace

SmallestCapacity smallest_capacity_below(const TunedRun& run, const OptionString& options,
                                         const Trial& finished) {
  uint64_t fits = same_down_to(finished, options);
  for (;;) {
    const uint64_t below = one_step_below(fits);
    const Trial trial = run.run_until_failure(options, below);
    if (!trial.fits()) return {fits, below};
    fits = same_down_to(trial, options);
  }
}

SmallestCapacity smallest_capacity(const TunedRun& run, const OptionString& options) {
  const Trial unlimited = run.run_until_failure(options, kUnlimited);
  if (!unlimited.fits())
    throw Failure(run.name() + ": does not finish on any device, options: " + options.name());
  if (!options.depends_on_device_size()) return smallest_capacity_below(run, options, unlimited);
  const Trial first = run.run_until_failure(options, out_of_reach(unlimited.peak_device, options));
  return smallest_capacity_below(run, options, first.fits() ? first : unlimited);
}

}  // namespace cachalot::cli
