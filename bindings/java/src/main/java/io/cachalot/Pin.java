// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A part of a block that stays where it is until this is closed, also after the block was closed ({@link
 * Block#pin()}, {@link Allocator#pin}). It keeps its allocator. Any thread may close it.
 *
 * <pre>{@code
 * try (Pin pin = block.pin()) {
 *   connection.register(pin.address(), pin.size());
 *   ...
 * }
 * }</pre>
 */
public final class Pin implements AutoCloseable {
  private final Allocator allocator;
  private final long address;
  private final long size;
  private final AtomicBoolean isClosed;

  /** The pin counts as closed until the library has pinned the memory. */
  private Pin(Allocator allocator, long address, long size) {
    this.allocator = allocator;
    this.address = address;
    this.size = size;
    AllocatorCore core = allocator.core;
    AtomicBoolean closed = new AtomicBoolean(true);
    isClosed = closed;
    Cleaners.register(this, () -> {
      if (closed.compareAndSet(false, true)) {
        unpinAbandoned(core, address, size);
      }
    });
  }

  static Pin of(Allocator allocator, long address, long size) {
    Pin pin = new Pin(allocator, address, Arguments.size(size, "size"));
    allocator.core.call((owner, error) -> Native.pin(owner, address, size, error));
    pin.isClosed.set(false);
    return pin;
  }

  private static void unpinAbandoned(AllocatorCore core, long address, long size) {
    try (Scratch scratch = Scratch.enterIfOpen(core)) {
      if (scratch != null) {
        Native.unpin(scratch.handle, address, size, scratch.error);
      }
    }
  }

  /**
   * Whose memory it is.
   *
   * @return the allocator
   */
  public Allocator allocator() {
    return allocator;
  }

  /**
   * The first byte that is pinned.
   *
   * @return the address
   */
  public long address() {
    return address;
  }

  /**
   * How many bytes from there on are pinned.
   *
   * @return the number
   */
  public long size() {
    return size;
  }

  /**
   * Ends the pin. Again, or after its allocator: nothing.
   *
   * @throws IllegalStateException in a callback under a lock of the allocator: then it is still open
   */
  @Override
  public void close() {
    try (Scratch scratch = Scratch.enterIfOpen(allocator.core)) {
      if (isClosed.compareAndSet(false, true) && scratch != null) {
        scratch.check(Native.unpin(scratch.handle, address, size, scratch.error));
      }
    }
  }

  /** Address and size, for messages. */
  @Override
  public String toString() {
    return String.format("Pin(%#x, %d bytes%s)", address, size, isClosed.get() ? ", closed" : "");
  }
}
