// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;

/** Why a request cannot have memory that is not live: the first that applies. */
public enum Reason {
  /** It can, or there is no request. */
  USABLE(Constants.REASON_USABLE),
  /** Freed; work on recorded streams was left when last looked. */
  PENDING_EVENTS(Constants.REASON_PENDING_EVENTS),
  /** Freed while a capture was under way; waits for its end. */
  PENDING_CAPTURE(Constants.REASON_PENDING_CAPTURE),
  /** Of another pool. */
  OTHER_POOL(Constants.REASON_OTHER_POOL),
  /** Small blocks for a large request, or the other way round. */
  OTHER_CLASS(Constants.REASON_OTHER_CLASS),
  /** Of another stream. */
  OTHER_STREAM(Constants.REASON_OTHER_STREAM),
  /** Of expandable segments, which the request may not use. */
  EXPANDABLE(Constants.REASON_EXPANDABLE),
  /** Too small. */
  TOO_SMALL(Constants.REASON_TOO_SMALL),
  /** max_split_size_mb forbids to split it for so little. */
  NOT_SPLIT(Constants.REASON_NOT_SPLIT),
  /** A reason that a newer library knows and this version does not. */
  UNKNOWN(-1);

  private final int number;

  Reason(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }

  static Reason of(int number) {
    for (Reason each : values()) {
      if (each.number == number) {
        return each;
      }
    }
    return UNKNOWN;
  }

  /**
   * Its name in texts of the library.
   *
   * @return for example {@code too_small}
   */
  public String text() {
    Library.load();
    return Memory.textOf(Native.reportReasonName(number));
  }
}
