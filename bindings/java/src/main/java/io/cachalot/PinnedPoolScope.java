// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Requests of pinned memory are routed to a pool until this is closed ({@link Allocator#routePinned}). The pool
 * stays.
 *
 * <pre>{@code
 * PinnedPool graphs;
 * try (PinnedPoolScope scope = allocator.routePinned(device, id, Route.capture(captureId))) {
 *   graphs = scope.pool();
 *   ...  // the capture
 * }
 * ...
 * graphs.close();  // with the graph
 * }</pre>
 */
public final class PinnedPoolScope implements AutoCloseable {
  private final PinnedPool pool;
  private final AtomicBoolean isClosed = new AtomicBoolean();

  PinnedPoolScope(PinnedPool pool) {
    this.pool = pool;
  }

  /**
   * The user that the routing has given the pool. It stays when this is closed.
   *
   * @return close it
   */
  public PinnedPool pool() {
    return pool;
  }

  /** Ends the routing. Again, or after its allocator: nothing. */
  @Override
  public void close() {
    PinnedPoolKey key = pool.key();
    try (Scratch scratch = Scratch.enterIfOpen(key.allocator().core)) {
      if (scratch != null && isClosed.compareAndSet(false, true)) {
        PoolId id = key.id();
        scratch.check(Native.pinnedPoolEnd(scratch.handle, id.first(), id.second(), scratch.error));
      }
    }
  }
}
