// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import java.nio.ByteBuffer;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Memory of another process that was opened by a {@link SharedHandle}. It keeps its allocator. Any thread may close it;
 * the collector closes one that nobody closed, so a program keeps it until the work on it is done.
 */
public final class OpenedMemory implements AutoCloseable {
  private final Allocator allocator;
  private final long memory;
  private final long offset;
  private final AtomicBoolean isClosed;

  private OpenedMemory(Allocator allocator, long offset, long memory) {
    this.allocator = allocator;
    this.offset = offset;
    this.memory = memory;
    Core core = new Core(allocator.core, memory);
    isClosed = core.isClosed;
    Cleaners.register(this, core);
  }

  /** What is left of it when it has been collected. */
  private static final class Core implements Runnable {
    private final AllocatorCore owner;
    private final long memory;
    private final AtomicBoolean isClosed = new AtomicBoolean();

    Core(AllocatorCore owner, long memory) {
      this.owner = owner;
      this.memory = memory;
    }

    @Override
    public void run() {
      if (isClosed.compareAndSet(false, true)) {
        closeAbandoned(owner, memory);
      }
    }
  }

  /** Closes for nobody to whom a failure could be told. */
  private static void closeAbandoned(AllocatorCore owner, long memory) {
    try (Scratch scratch = Scratch.enterIfOpen(owner)) {
      if (scratch != null) {
        Native.closeShared(scratch.handle, memory, scratch.error);
      }
    }
  }

  static OpenedMemory open(Allocator allocator, int device, SharedHandle shared) {
    byte[] bytes = Objects.requireNonNull(shared, "shared").handle();
    try (Memory memory = new Memory()) {
      ByteBuffer handle = memory.allocate(Math.max(1, bytes.length)).put(bytes);
      long opened = allocator.core.ask((owner, out, error) ->
          Native.openShared(owner, device, Memory.addressOf(handle), bytes.length, out, error));
      return Cleaners.own(opened, own -> new OpenedMemory(allocator, shared.offset(), own),
          own -> closeAbandoned(allocator.core, own));
    }
  }

  /**
   * That which has opened it.
   *
   * @return the allocator
   */
  public Allocator allocator() {
    return allocator;
  }

  /**
   * The block's first byte in this process.
   *
   * @return the address
   */
  public long address() {
    return memory + offset;
  }

  /**
   * Closes the memory once each of its users has. The work on a plain segment has to be done by then, as in PyTorch.
   * Again, or after its allocator: nothing.
   *
   * @throws IllegalStateException in a callback under a lock of the allocator: then it is still open
   */
  @Override
  public void close() {
    try (Scratch scratch = Scratch.enterIfOpen(allocator.core)) {
      if (isClosed.compareAndSet(false, true) && scratch != null) {
        scratch.check(Native.closeShared(scratch.handle, memory, scratch.error));
      }
    }
  }

  /** The address, for messages. */
  @Override
  public String toString() {
    return String.format("OpenedMemory(%#x%s)", address(), isClosed.get() ? ", closed" : "");
  }
}
