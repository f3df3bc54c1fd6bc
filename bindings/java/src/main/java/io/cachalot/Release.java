// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import java.util.Optional;

/** The PyTorch release whose decisions are made. */
public enum Release {
  /** PyTorch 2.11. */
  V2_11(Constants.RELEASE_2_11, "2.11"),
  /** PyTorch 2.15. */
  V2_15(Constants.RELEASE_2_15, "2.15");

  private final int number;
  private final String text;

  Release(int number, String text) {
    this.number = number;
    this.text = text;
  }

  int number() {
    return number;
  }

  static Optional<Release> find(int number) {
    for (Release each : values()) {
      if (each.number == number) {
        return Optional.of(each);
      }
    }
    return Optional.empty();
  }

  /** The number of the release, for example {@code 2.15}. */
  @Override
  public String toString() {
    return text;
  }
}
