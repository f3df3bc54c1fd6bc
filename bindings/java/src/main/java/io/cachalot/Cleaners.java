// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.lang.ref.Cleaner;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

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

  /** The owner of a native object that has none yet; if there can be none, the object is ended. */
  static <T> T own(long address, LongFunction<T> make, LongConsumer end) {
    try {
      return make.apply(address);
    } catch (Throwable thrown) {
      end.accept(address);
      throw thrown;
    }
  }

  /** The action must not refer to the handle. */
  static Cleaner.Cleanable register(Object handle, Runnable action) {
    return ALL[(int) Thread.currentThread().getId() & (ALL.length - 1)].register(handle, action);
  }
}
