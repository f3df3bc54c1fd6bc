// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;

/** Why a tenant is asked to give memory back. */
public enum PressureReason {
  /** The tenant's own request is beyond its limit. */
  LIMIT(Constants.PRESSURE_LIMIT),
  /** What others are guaranteed would not be left. */
  GUARANTEE(Constants.PRESSURE_GUARANTEE),
  /** The device has no memory left. */
  DEVICE(Constants.PRESSURE_DEVICE),
  /** A reason that a newer library knows and this version does not. */
  UNKNOWN(-1);

  private final int number;

  PressureReason(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }

  static PressureReason of(int number) {
    for (PressureReason each : values()) {
      if (each.number == number) {
        return each;
      }
    }
    return UNKNOWN;
  }
}
