// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;

/** What a pool does. */
public enum PoolState {
  /** It has its memory. */
  AWAKE(Constants.POOL_AWAKE),
  /** Contents are saved, and memory goes. */
  FALLING_ASLEEP(Constants.POOL_FALLING_ASLEEP),
  /** The driver has its memory. */
  ASLEEP(Constants.POOL_ASLEEP),
  /** Memory comes. */
  WAKING(Constants.POOL_WAKING),
  /** A state that a newer library knows and this version does not. */
  UNKNOWN(-1);

  private final int number;

  PoolState(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }

  static PoolState of(int number) {
    for (PoolState each : values()) {
      if (each.number == number) {
        return each;
      }
    }
    return UNKNOWN;
  }
}
