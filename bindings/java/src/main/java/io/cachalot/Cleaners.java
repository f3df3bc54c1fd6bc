// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.lang.ref.Cleaner;

/** The safety net under handles that nobody closed. Several, since each registers under a lock. */
final class Cleaners {
  private static final Cleaner[] ALL = new Cleaner[Math.min(8, Integer.highestOneBit(
      Runtime.getRuntime().availableProcessors()))];

  static {
    for (int i = 0; i < ALL.length; i++) {
      ALL[i] = Cleaner.create();
    }
  }

  private Cleaners() {}

  /** The action must not refer to the handle. */
  static Cleaner.Cleanable register(Object handle, Runnable action) {
    return ALL[(int) Thread.currentThread().getId() & (ALL.length - 1)].register(handle, action);
  }
}
