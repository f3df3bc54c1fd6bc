// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.util.concurrent.atomic.AtomicBoolean;

/** Empties the cache when it is closed ({@link Allocator#emptyCacheOnClose}). */
public final class EmptyCacheScope implements AutoCloseable {
  private final Allocator allocator;
  private final AtomicBoolean isClosed = new AtomicBoolean();

  EmptyCacheScope(Allocator allocator) {
    this.allocator = allocator;
  }

  /** Gives the cached memory back to the driver. Again, or after its allocator: nothing. */
  @Override
  public void close() {
    if (isClosed.compareAndSet(false, true) && !allocator.core.isClosed()) {
      allocator.emptyCache();
    }
  }
}
