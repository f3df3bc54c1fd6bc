// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.util.concurrent.atomic.AtomicBoolean;

/** Requests are routed to a pool until this is closed ({@link Pool#route}). */
public final class PoolScope implements AutoCloseable {
  private final PoolKey key;
  private final AtomicBoolean isClosed = new AtomicBoolean();

  PoolScope(PoolKey key) {
    this.key = key;
  }

  /** Ends the routing. Again, or after its allocator: nothing. */
  @Override
  public void close() {
    try (Scratch scratch = Scratch.enterIfOpen(key.allocator().core)) {
      if (scratch != null && isClosed.compareAndSet(false, true)) {
        key.leave(scratch);
      }
    }
  }
}
