// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A user of a pool of pinned memory, a captured graph for example ({@link Allocator#routePinned}). Closing takes
 * the user away; without users the pool's cached blocks go with the next {@link Allocator#emptyPinnedCache}.
 */
public final class PinnedPool implements AutoCloseable {
  private final PinnedPoolKey key;
  private final AtomicBoolean isClosed;

  PinnedPool(PinnedPoolKey key) {
    this.key = key;
    AllocatorCore core = key.allocator().core;
    AtomicBoolean closed = new AtomicBoolean();
    isClosed = closed;
    PoolId id = key.id();
    Cleaners.register(this, () -> {
      if (closed.compareAndSet(false, true)) {
        releaseAbandoned(core, id);
      }
    });
  }

  private static void releaseAbandoned(AllocatorCore core, PoolId id) {
    try (Scratch scratch = Scratch.enterIfOpen(core)) {
      if (scratch != null) {
        Native.pinnedPoolRelease(scratch.handle, id.first(), id.second(), scratch.error);
      }
    }
  }

  /**
   * The pool by its id.
   *
   * @return the key
   */
  public PinnedPoolKey key() {
    return key;
  }

  /** Takes the user away. Again, or after its allocator: nothing. */
  @Override
  public void close() {
    try (Scratch scratch = Scratch.enterIfOpen(key.allocator().core)) {
      if (isClosed.compareAndSet(false, true) && scratch != null) {
        PoolId id = key.id();
        scratch.check(Native.pinnedPoolRelease(scratch.handle, id.first(), id.second(), scratch.error));
      }
    }
  }
}
