// SPDX-License-Identifier: MIT OR Apache-2.0
// How small a device may be for a recorded run to finish.
//
// Fitting is not monotone: a run that finishes on a device may fail on a larger one, where the cache is given back at
// other moments. So the devices are looked at from above, in steps of at most 0.4 %, down to the first on which the run
// fails: the end of the last failure that is seen.
#pragma once

#include <cstdint>

#include "trial.h"

namespace cachalot::cli {

inline constexpr double kCapacityStep = 1.004;

// The next smaller device to look at.
inline uint64_t one_step_below(uint64_t capacity) {
  return static_cast<uint64_t>(static_cast<double>(capacity) / kCapacityStep);
}

// Bytes of a device.
struct SmallestCapacity {
  uint64_t fits;   // the run finishes there, and on each device above that was looked at
  uint64_t fails;  // the next one below, where it does not
};

// Looks at all devices. Throws Failure and Cancelled.
SmallestCapacity smallest_capacity(const TunedRun& run, const OptionString& options);

// Looks at devices from this one on, so failures above are not seen. pre: the run finishes there.
SmallestCapacity smallest_capacity_below(const TunedRun& run, const OptionString& options,
                                         const Trial& finished);

}  // namespace cachalot::cli
