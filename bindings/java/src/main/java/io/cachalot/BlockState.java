// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;

/** The state of a block in a snapshot. */
public enum BlockState {
  /** In the cache. */
  INACTIVE(Constants.BLOCK_INACTIVE),
  /** Handed out. */
  ALLOCATED(Constants.BLOCK_ALLOCATED),
  /** Freed, waiting for recorded streams. */
  PENDING_FREE(Constants.BLOCK_PENDING_FREE),
  /** A state that a newer library knows and this version does not. */
  UNKNOWN(-1);

  private final int number;

  BlockState(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }

  static BlockState of(int number) {
    for (BlockState each : values()) {
      if (each.number == number) {
        return each;
      }
    }
    return UNKNOWN;
  }
}
