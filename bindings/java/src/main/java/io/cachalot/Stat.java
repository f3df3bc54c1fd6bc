// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * One statistic: a count or a number of bytes. Without resets current = allocated - freed.
 *
 * @param current now
 * @param peak the highest {@code current} since {@link Allocator#resetPeakStats}
 * @param allocated all increases since {@link Allocator#resetAccumulatedStats}
 * @param freed all decreases since then
 */
public record Stat(long current, long peak, long allocated, long freed) {
  Structs.Stat toC() {
    Structs.Stat stat = new Structs.Stat();
    stat.current = current;
    stat.peak = peak;
    stat.allocated = allocated;
    stat.freed = freed;
    return stat;
  }

  static Stat of(Structs.Stat from) {
    return new Stat(from.current, from.peak, from.allocated, from.freed);
  }
}
