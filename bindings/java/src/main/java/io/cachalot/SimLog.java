// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import java.util.Set;

/** Kinds of lines that a simulated driver keeps. */
public enum SimLog {
  /** The usual ones. */
  CALLS(Constants.SIM_LOG_CALLS),
  /** The handle type of each page. */
  HANDLES(Constants.SIM_LOG_HANDLES),
  /** Event queries. */
  QUERIES(Constants.SIM_LOG_QUERIES),
  /** Exchanges of the capture mode. */
  CAPTURE_MODES(Constants.SIM_LOG_CAPTURE_MODES),
  /** Streams that are made to wait for an event. */
  WAITS(Constants.SIM_LOG_WAITS);

  private final int number;

  SimLog(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }

  static int bits(Set<SimLog> chosen) {
    return chosen.stream().mapToInt(SimLog::number).reduce(0, (a, b) -> a | b);
  }
}
