// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;

/** Where the contexts of the history come from. */
public enum ContextSource {
  /** {@link AllocatorBuilder#contexts}, if set. */
  CALLBACK(Constants.CONTEXT_CALLBACK),
  /** Native call stacks. */
  STACK(Constants.CONTEXT_STACK),
  /** The thread's labels ({@link Label}). */
  LABELS(Constants.CONTEXT_LABELS);

  private final int number;

  ContextSource(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }
}
