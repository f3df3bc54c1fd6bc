// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import java.util.Locale;
import java.util.Optional;

/**
 * When the serving policy ({@link Policy}) lends cached memory of one stream to another. The borrower waits for the
 * lender's work, on the device ({@link Policy.Builder#announcedStreams}).
 */
public enum Borrow {
  /** Before new pages are obtained: the least memory. */
  FIRST(Constants.BORROW_FIRST),
  /** Where no new page is to be had: streams wait for each other seldom. */
  AT_LIMIT(Constants.BORROW_AT_LIMIT),
  /** Never: streams do not wait for each other. */
  NEVER(Constants.BORROW_NEVER);

  private final int number;

  Borrow(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }

  static Optional<Borrow> find(int number) {
    for (Borrow each : values()) {
      if (each.number == number) {
        return Optional.of(each);
      }
    }
    return Optional.empty();
  }

  /** As in the text of a policy, for example {@code at_limit}. */
  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT);
  }
}
