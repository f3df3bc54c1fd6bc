// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;
import java.util.concurrent.atomic.AtomicBoolean;

/** A graph capture is marked on a device until this is closed ({@link Allocator#capture}). */
public final class CaptureScope implements AutoCloseable {
  private final Allocator allocator;
  private final int device;
  private final AtomicBoolean isClosed = new AtomicBoolean();

  CaptureScope(Allocator allocator, int device) {
    this.allocator = allocator;
    this.device = device;
  }

  /** Marks the end. Again, or after its allocator: nothing. */
  @Override
  public void close() {
    try (Scratch scratch = Scratch.enterIfOpen(allocator.core)) {
      if (scratch != null && isClosed.compareAndSet(false, true)) {
        scratch.check(Native.captureEnd(scratch.handle, device, scratch.error));
      }
    }
  }
}
