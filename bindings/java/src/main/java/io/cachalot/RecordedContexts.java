// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;

/** What stands in the context of a recorded event. */
public enum RecordedContexts {
  /** The thread's labels, with their texts. */
  LABELS(Constants.RECORD_LABELS),
  /** The context that the history keeps; the texts of new ones are written by a flush and at the end. */
  HISTORY(Constants.RECORD_HISTORY_CONTEXTS),
  /** Nothing. */
  NONE(Constants.RECORD_NO_CONTEXTS);

  private final int number;

  RecordedContexts(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }
}
