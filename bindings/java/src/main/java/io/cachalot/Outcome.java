// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;

/** What would become of a report's request now. */
public enum Outcome {
  /** The report is about none. */
  NO_REQUEST(Constants.OUTCOME_NO_REQUEST),
  /** A cached block serves it. */
  FROM_CACHE(Constants.OUTCOME_FROM_CACHE),
  /** The device has enough and no limit is in the way, or a pool's own source is asked. */
  FROM_DEVICE(Constants.OUTCOME_FROM_DEVICE),
  /** If cached memory is released first, or by a pool with {@link PoolFlag#USE_ON_OOM}. */
  AFTER_RELEASE(Constants.OUTCOME_AFTER_RELEASE),
  /** It fails. */
  FAILS(Constants.OUTCOME_FAILS),
  /** An outcome that a newer library knows and this version does not. */
  UNKNOWN(-1);

  private final int number;

  Outcome(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }

  static Outcome of(int number) {
    for (Outcome each : values()) {
      if (each.number == number) {
        return each;
      }
    }
    return UNKNOWN;
  }

  /**
   * Its name in texts of the library.
   *
   * @return for example {@code from_cache}
   */
  public String text() {
    Library.load();
    return Memory.textOf(Native.reportOutcomeName(number));
  }
}
