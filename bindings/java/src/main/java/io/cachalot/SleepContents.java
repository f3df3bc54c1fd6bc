// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;

/** What becomes of the contents of a pool that falls asleep. */
public enum SleepContents {
  /** They are lost. */
  DISCARD(Constants.SLEEP_DISCARD),
  /** Those of blocks that are handed out are kept. */
  KEEP(Constants.SLEEP_KEEP),
  /** Those of free memory too: for graphs whose results lie in memory that was freed. */
  KEEP_ALL(Constants.SLEEP_KEEP_ALL);

  private final int number;

  SleepContents(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }
}
