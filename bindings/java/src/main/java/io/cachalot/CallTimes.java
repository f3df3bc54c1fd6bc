// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * How long calls of the driver took, in microseconds.
 *
 * @param count how many there were
 * @param total all of them together
 * @param min the shortest; 0 where there was none
 * @param max the longest; 0 where there was none
 */
public record CallTimes(long count, long total, long min, long max) {
  static CallTimes of(Structs.CallTimes from) {
    return new CallTimes(from.count, from.total, from.min, from.max);
  }
}
