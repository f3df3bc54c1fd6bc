// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;
import java.util.concurrent.atomic.AtomicBoolean;

/** Something that the allocator calls, attached until this is closed or the allocator ends. */
public final class Observer implements AutoCloseable {
  private final Allocator allocator;
  private final Listeners.Ref<?> listener;
  private final long id;
  private final AtomicBoolean isClosed = new AtomicBoolean();

  Observer(Allocator allocator, Listeners.Ref<?> listener, long id) {
    this.allocator = allocator;
    this.listener = listener;
    this.id = id;
  }

  /** Detaches it. Again, or after its allocator: nothing. */
  @Override
  public void close() {
    try (Scratch scratch = Scratch.enterIfOpen(allocator.core)) {
      if (scratch != null && isClosed.compareAndSet(false, true)) {
        allocator.listeners.remove(listener);
        scratch.check(Native.detach(scratch.handle, id, scratch.error));
      }
    }
  }
}
