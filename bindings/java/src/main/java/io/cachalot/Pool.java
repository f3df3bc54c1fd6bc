// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A private pool: memory set apart for a graph or a user. Closing releases it; then its memory goes back with the
 * cache, once its blocks have been freed.
 *
 * <pre>{@code
 * try (Pool pool = allocator.createPool(0, new PoolOptions()); PoolScope scope = pool.route(Route.stream(7))) {
 *   block = allocator.allocate(size, 0, 7);  // of the pool
 * }
 * }</pre>
 */
public final class Pool implements AutoCloseable {
  private final PoolKey key;
  private final AtomicBoolean isClosed;

  Pool(PoolKey key) {
    this.key = key;
    AllocatorCore core = key.allocator().core;
    AtomicBoolean closed = new AtomicBoolean();
    isClosed = closed;
    int device = key.device();
    PoolId id = key.id();
    Cleaners.register(this, () -> {
      if (closed.compareAndSet(false, true)) {
        releaseAbandoned(core, device, id);
      }
    });
  }

  private static void releaseAbandoned(AllocatorCore core, int device, PoolId id) {
    try (Scratch scratch = Scratch.enterIfOpen(core)) {
      if (scratch != null) {
        io.cachalot.raw.Native.poolRelease(scratch.handle, device, id.first(), id.second(), scratch.error);
      }
    }
  }

  /**
   * The pool by device and id, for all that can be asked of it and told to it.
   *
   * @return the key
   * @throws IllegalStateException if this is closed
   */
  public PoolKey key() {
    if (isClosed.get()) {
      throw new IllegalStateException("the pool is closed");
    }
    return key;
  }

  /**
   * The id.
   *
   * @return for {@link Allocator#joinPool}, also from another thread
   */
  public PoolId id() {
    return key.id();
  }

  /**
   * Routes requests to the pool until the scope is closed.
   *
   * @param route which requests
   * @return close it
   * @throws IllegalStateException if the pool is being routed to already
   */
  public PoolScope route(Route route) {
    Objects.requireNonNull(route, "route");
    PoolKey open = key();
    route.refuseOnVirtualThread();
    try {
      open.begin(route);
    } catch (IllegalStateException refused) {
      // A beginning that is refused by the library has raised the use count.
      if (!open.allocator().core.isClosed() && open.useCount() > 1) {
        open.release();
      }
      throw refused;
    }
    return new PoolScope(open);
  }

  /** Releases the pool. Again, or after its allocator: nothing. */
  @Override
  public void close() {
    try (Scratch scratch = Scratch.enterIfOpen(key.allocator().core)) {
      if (isClosed.compareAndSet(false, true) && scratch != null) {
        key.leaveUse(scratch);
      }
    }
  }
}
