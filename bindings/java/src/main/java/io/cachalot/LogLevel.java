// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;

/** Levels of the library's remarks. */
public enum LogLevel {
  /** A warning of the reference, in its words. */
  WARNING(Constants.LOG_WARNING),
  /** A mended defect of the reference has just changed a decision. */
  DIFFERENCE(Constants.LOG_DIFFERENCE),
  /** A block was written beyond its end ({@link DebugOption#RED_ZONES}). */
  DAMAGE(Constants.LOG_DAMAGE),
  /** Options that harm each other, such as those of {@link Mend#SPLIT_LIMIT}; given once. */
  ADVICE(Constants.LOG_ADVICE),
  /** A level that a newer library knows and this version does not. */
  UNKNOWN(-1);

  private final int number;

  LogLevel(int number) {
    this.number = number;
  }

  /**
   * The level of {@link System.Logger} that it has there.
   *
   * @return {@code ERROR} for damage, {@code INFO} for a difference, else {@code WARNING}
   */
  public System.Logger.Level level() {
    switch (this) {
      case DAMAGE:
        return System.Logger.Level.ERROR;
      case DIFFERENCE:
        return System.Logger.Level.INFO;
      default:
        return System.Logger.Level.WARNING;
    }
  }

  int number() {
    return number;
  }

  static LogLevel of(int number) {
    for (LogLevel each : values()) {
      if (each.number == number) {
        return each;
      }
    }
    return UNKNOWN;
  }
}
