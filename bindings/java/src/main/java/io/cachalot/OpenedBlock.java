// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import java.util.Objects;

/**
 * A block of another process, which stays there until it is closed. It keeps its allocator. Any thread may use and
 * close it; the collector closes one that nobody closed.
 */
public final class OpenedBlock implements AutoCloseable {
  private final Allocator allocator;
  private final Core core;
  private final long address;
  private final long size;

  private static final class Core extends Resource {
    Core(long address) {
      super("opened block", address);
    }

    @Override
    void destroy(long address, Scratch scratch) {
      Native.openedBlockDestroy(address);
    }

    @Override
    boolean takesLocks() {
      return true;
    }
  }

  /** Registers last: until then the caller ends the block. */
  private OpenedBlock(Allocator allocator, long handle) {
    this.allocator = allocator;
    core = new Core(handle);
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(Native.openedBlockAddress(scratch.handle, scratch.out, scratch.out(1), scratch.error));
      address = scratch.outLong();
      size = scratch.outLong(1);
    }
    Cleaners.register(this, core);
  }

  static OpenedBlock open(Allocator allocator, int device, String ticket) {
    Objects.requireNonNull(ticket, "ticket");
    try (Memory memory = new Memory()) {
      long text = Texts.toC(memory, ticket);
      long handle = allocator.core.ask(
          (owner, out, error) -> Native.openedBlockCreate(owner, device, text, out, error));
      return Cleaners.own(handle, own -> new OpenedBlock(allocator, own), Native::openedBlockDestroy);
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
   * @throws IllegalStateException if it is closed
   */
  public long address() {
    if (core.isClosed()) {
      throw core.closed();
    }
    return address;
  }

  /**
   * What was requested where the block is from.
   *
   * @return bytes
   */
  public long size() {
    return size;
  }

  /**
   * Whether the process that shares the block is still there.
   *
   * @return whether it is
   * @throws IllegalStateException if it is closed
   */
  public boolean hasSharer() {
    try (Scratch scratch = Scratch.enter(core)) {
      return Native.openedBlockHasSharer(scratch.handle) != 0;
    }
  }

  /** Waits for the work of the device, and closes the block. Again: nothing. */
  @Override
  public void close() {
    core.close();
  }

  /** Address and size, for messages. */
  @Override
  public String toString() {
    return String.format("OpenedBlock(%#x, %d bytes%s)", address, size, core.isClosed() ? ", closed" : "");
  }
}
