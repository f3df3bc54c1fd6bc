// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * Calls of one function of the driver with one size, behind the same gap.
 *
 * @param function its name in the CUDA driver, like {@code cuMemAlloc}
 * @param size in bytes
 * @param count how many, those that failed included; what an ending context gives back is none
 * @param gapUs microseconds that the program had worked since the function's call before, rounded down to a power of two
 */
public record ReplayCall(String function, long size, long count, long gapUs) {
  static ReplayCall of(Structs.ReplayCall from) {
    return new ReplayCall(from.function, from.size, from.count, from.gapUs);
  }
}
