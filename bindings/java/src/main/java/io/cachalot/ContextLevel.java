// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;

/** For what contexts are kept. Each level includes those before. */
public enum ContextLevel {
  /** Nothing. */
  NEVER(Constants.CONTEXT_LEVEL_NEVER),
  /** Live blocks and segments. */
  STATE(Constants.CONTEXT_LEVEL_STATE),
  /** Entries too: that of the hand-out. */
  ALLOC(Constants.CONTEXT_LEVEL_ALLOC),
  /** And frees have their own. */
  ALL(Constants.CONTEXT_LEVEL_ALL);

  private final int number;

  ContextLevel(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }
}
