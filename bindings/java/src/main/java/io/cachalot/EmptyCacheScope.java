// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;

/** Empties the cache when it is closed ({@link Allocator#emptyCacheOnClose}). */
public final class EmptyCacheScope implements AutoCloseable {
  private final Allocator allocator;
  private volatile boolean isClosed;

  EmptyCacheScope(Allocator allocator) {
    this.allocator = allocator;
  }

  /**
   * Gives the cached memory back to the driver. Again, or after its allocator: nothing.
   *
   * @throws DriverException where the driver refused: then it can be closed again
   */
  @Override
  public void close() {
    if (isClosed) {
      return;
    }
    try (Scratch scratch = Scratch.enterIfOpen(allocator.core)) {
      if (scratch != null) {
        scratch.check(Native.emptyCache(scratch.handle, scratch.error));
      }
      isClosed = true;
    }
  }
}
