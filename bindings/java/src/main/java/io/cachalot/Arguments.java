// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.time.Duration;
import java.util.Objects;

/** Arguments that the library would take for something else. */
final class Arguments {
  private Arguments() {}

  /** A text that C can read to its end. */
  static String text(String text, String name) {
    if (Objects.requireNonNull(text, name).indexOf('\0') >= 0) {
      throw new IllegalArgumentException("a text contains a NUL");
    }
    return text;
  }

  /** Bytes, or a number of something; C would take a negative one for a very large one. */
  static long size(long size, String name) {
    if (size < 0) {
      throw new IllegalArgumentException(name + " is negative: " + size);
    }
    return size;
  }

  static int count(int count, String name) {
    return (int) size(count, name);
  }

  /** Nanoseconds; more than 292 years are as many as there can be. */
  static long nanos(Duration time, String name) {
    if (Objects.requireNonNull(time, name).isNegative()) {
      throw new IllegalArgumentException(name + " is negative: " + time);
    }
    try {
      return time.toNanos();
    } catch (ArithmeticException tooLong) {
      return Long.MAX_VALUE;
    }
  }
}
