// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;

/**
 * A block that other processes of this user can open by its ticket. It is freed when it is closed and no process has it
 * open any more, however those processes end. It keeps its allocator. Any thread may use and close it; the collector
 * closes one that nobody closed.
 *
 * <pre>{@code
 * try (SharedBlock shared = allocator.allocate(bytes).share()) {
 *   worker.send(shared.ticket());
 *   ...
 * }
 * }</pre>
 */
public final class SharedBlock implements AutoCloseable {
  private final Allocator allocator;
  private final long address;
  private final Core core;

  private static final class Core extends Resource {
    private final AllocatorCore owner;

    Core(AllocatorCore owner, long address) {
      super("shared block", address);
      this.owner = owner;
    }

    @Override
    void destroy(long address, Scratch scratch) {
      Native.sharedBlockDestroy(address);
    }

    @Override
    boolean takesLocks() {
      return true;
    }

    /** It may have been the last block of an allocator that nobody has. */
    @Override
    void ended() {
      owner.endIfAbandoned();
    }
  }

  private SharedBlock(Allocator allocator, long address, long handle) {
    this.allocator = allocator;
    this.address = address;
    core = new Core(allocator.core, handle);
    Cleaners.register(this, core);
  }

  /** Of a live block, which is the handle's if this works. */
  static long create(Allocator allocator, long address) {
    return allocator.core.ask((owner, out, error) -> Native.sharedBlockCreate(owner, address, out, error));
  }

  static SharedBlock of(Allocator allocator, long address, long handle) {
    return Cleaners.own(handle, own -> new SharedBlock(allocator, address, own), Native::sharedBlockDestroy);
  }

  /**
   * Whose block it is.
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
    return address;
  }

  /**
   * The text by which other processes open the block. Any process of the same user that has
   * the text can open the block.
   *
   * @return a secret of printable ASCII
   * @throws IllegalStateException if it is closed
   */
  public String ticket() {
    try (Scratch scratch = Scratch.enter(core)) {
      return Texts.of(scratch, (buffer, capacity, length, error) ->
          Native.sharedBlockTicket(scratch.handle, buffer, capacity, length, error));
    }
  }

  /**
   * How often the block is open.
   *
   * @return the number
   * @throws IllegalStateException if it is closed
   */
  public long users() {
    try (Scratch scratch = Scratch.enter(core)) {
      return Native.sharedBlockUsers(scratch.handle);
    }
  }

  /**
   * Ends the sharing: nobody can open the block any more, and it is freed when nobody has it open. Until then its
   * allocator has a live block. Again: nothing.
   */
  @Override
  public void close() {
    core.close();
  }

  /** The address, for messages. */
  @Override
  public String toString() {
    return String.format("SharedBlock(%#x%s)", address, core.isClosed() ? ", closed" : "");
  }
}
