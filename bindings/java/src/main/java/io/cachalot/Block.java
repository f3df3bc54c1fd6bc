// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;

/**
 * Memory that was handed out, with its owner: closing frees it, and so does the collector for a block that nobody
 * closed. It keeps its allocator. Any thread may use and free it.
 *
 * <p>The memory of a device is reused by the next request that fits, not when the collector finds the time: close
 * blocks. Where a block of its own costs too much there is {@link Allocator#allocateUnowned}.
 */
public final class Block implements AutoCloseable {
  private static final VarHandle STATE;

  static {
    try {
      STATE = MethodHandles.lookup().findVarHandle(Block.class, "state", Object.class);
    } catch (ReflectiveOperationException impossible) {
      throw new ExceptionInInitializerError(impossible);
    }
  }

  private final Allocator allocator;
  private final long address;
  /** Its guard; with its view, once there is one ({@link Lent}); null once the block is given up. */
  private volatile Object state;

  /** The guard of a block that was lent to code which reads and writes its memory. Given up under the block's lock. */
  private record Lent(Guard guard, HostView view) {}

  /** Takes over an address; if this throws, it has not. */
  Block(Allocator allocator, long address, Scratch scratch) {
    this.allocator = allocator;
    this.address = address;
    if (address == 0) {
      state = Guard.NONE;
    } else {
      Guard guard = Guard.take(scratch);
      state = guard;
      guard.watch(allocator.core, address);
    }
  }

  /**
   * The block's first byte.
   *
   * @return the address; 0 for a request of 0 bytes
   * @throws IllegalStateException if the block is closed
   */
  public long address() {
    if (state == null) {
      throw closed();
    }
    if (allocator.core.isClosed()) {
      throw allocator.core.closed();
    }
    return address;
  }

  private static IllegalStateException closed() {
    return new IllegalStateException("the block is closed");
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
   * What is known of it.
   *
   * @return its size, stream, pool and so on
   * @throws IllegalArgumentException for an empty block, which has no memory
   */
  public BlockInfo info() {
    try {
      BlockInfo info = allocator.blockAt(address());
      if (state == null) {
        throw closed();  // It may be another block by now.
      }
      return info;
    } catch (IllegalArgumentException unknown) {
      throw state == null ? closed() : unknown;
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Says that work on another stream uses the block: after its free it stays out of use until the work that is
   * queued on that stream by then is done. Its own stream is ignored.
   *
   * @param stream of the block's device
   */
  public void recordStream(long stream) {
    try {
      allocator.recordStream(address(), stream);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * The same, made while another stream is the thread's current one, which matters during captures.
   *
   * @param stream of the block's device
   * @param current the current stream
   */
  public void recordStream(long stream, long current) {
    try (Scratch scratch = Scratch.enter(allocator.core)) {
      scratch.check(Native.recordStreamOnStream(scratch.handle, address(), stream, current, scratch.error));
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Keeps what was requested of the block where it is until the pin is closed, also after the block was closed ({@link
   * Allocator#pin}).
   *
   * @return close it
   * @throws IllegalArgumentException for an empty block, which has no memory, and for one that bypassed the cache
   * @throws UnsupportedOperationException under {@code backend:cudaMallocAsync}
   */
  public Pin pin() {
    try {
      BlockInfo info = info();
      return allocator.pin(info.address(), info.requested());
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * The same for a part of the block.
   *
   * @param offset where it begins
   * @param size how many bytes it has
   * @return close it
   * @throws IllegalArgumentException also for a part that goes beyond what was requested
   */
  public Pin pin(long offset, long size) {
    try {
      BlockInfo info = info();
      Arguments.size(offset, "offset");
      if (Arguments.size(size, "size") > info.requested() - offset) {
        throw new IllegalArgumentException(
            size + " bytes from " + offset + " on are not within a block of " + info.requested() + " bytes");
      }
      return allocator.pin(info.address() + offset, size);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * The block's memory, where the driver is {@code host}. Big-endian at first, as every buffer.
   *
   * <p>On Java 22 and later the buffer, and all that were made from it, throw {@link IllegalStateException} once the
   * block has been closed. Before, nothing can be taken away from a buffer; so there the memory of a closed block is
   * only freed when the collector has found that nobody has the buffer any more, and an allocator that was closed
   * before ends with the last of them. {@link PoolKey#sleep} says what becomes of the buffers of a pool that sleeps.
   *
   * @return what was requested, as a direct buffer; the same one each time, so position and limit are shared
   * @throws UnsupportedOperationException for memory that the host driver did not give: of another driver, or of a
   *     pool with a source of its own; also for more than 2 GiB
   * @throws IllegalStateException if the block is closed, or sleeps
   */
  public ByteBuffer asByteBuffer() {
    // In use, so that the allocator is not closed between the block's look and the buffer's entry.
    Scratch inUse = Scratch.enter(allocator.core);
    try {
      if (!allocator.driverName().equals("host")) {
        throw new UnsupportedOperationException("only blocks of the host driver can be read and written");
      }
      synchronized (this) {
        Object open = state;
        if (open instanceof Lent lent && lent.view.isThere()) {
          return lent.view.buffer();
        }
        return lend(open);
      }
    } finally {
      inUse.close();
    }
  }

  private ByteBuffer lend(Object open) {
    if (open == null) {
      throw closed();
    }
    BlockInfo info = address == 0 ? null : hostBlock(info());
    long size = info == null ? 0 : info.requested();
    if (size > Integer.MAX_VALUE) {
      throw new UnsupportedOperationException("a buffer has 2 GiB at most, the block has " + size + " bytes");
    }
    Guard guard = open instanceof Lent lent ? lent.guard : (Guard) open;
    HostView view = HostView.of(this, address, (int) size);
    allocator.core.lent(view, info);
    if (!STATE.compareAndSet(this, open, new Lent(guard, view))) {
      view.end();
      throw closed();
    }
    if (address != 0) {
      guard.lend(view.weak());
    }
    return view.buffer();
  }

  /** Refuses memory that the host driver did not give. */
  private static BlockInfo hostBlock(BlockInfo info) {
    if (info.fromSource()) {
      throw new UnsupportedOperationException(String.format(
          "the block at %#x is no buffer: the source of its pool gave its memory", info.address()));
    }
    return info;
  }

  /**
   * Lets other processes open the block, which is the shared block's from now on: it counts as closed. After an
   * exception it is there as before.
   *
   * @return close it
   * @throws IllegalStateException if it is closed, or there is a buffer of it
   * @throws UnsupportedOperationException for memory that its driver, or {@code backend:cudaMallocAsync}, cannot share
   */
  public SharedBlock share() {
    try (Scratch scratch = Scratch.enter()) {
      Guard guard = take();
      long handle;
      try {
        handle = SharedBlock.create(allocator, address);
      } catch (RuntimeException | Error failed) {
        state = guard;
        throw failed;
      }
      guard.end();
      guard.giveBack(scratch);
      return SharedBlock.of(allocator, address, handle);
    }
  }

  /** The guard, for a caller that gives the block away. The block counts as closed. */
  private Guard take() {
    Object guard = state;
    if (guard instanceof Lent) {
      throw new IllegalStateException("there is a buffer of the block");
    }
    if (guard == null || !STATE.compareAndSet(this, guard, null)) {
      throw closed();
    }
    return (Guard) guard;
  }

  /**
   * Gives the block away as a number: nothing frees it until it is taken back ({@link Allocator#adopt}) or freed
   * ({@link Allocator#free}).
   *
   * @return the address
   * @throws IllegalStateException if it is closed, or there is a buffer of it
   */
  public long leak() {
    try (Scratch scratch = Scratch.enter()) {
      Guard guard = take();
      guard.end();
      guard.giveBack(scratch);
      return address;
    }
  }

  /**
   * Frees the block: it is reused at once on its own stream; after {@link #recordStream} only when the work recorded
   * there is done. Again: nothing.
   *
   * @throws DriverException the block is given up all the same
   * @throws IllegalStateException on Java 22 and later, while another thread reads or writes its buffer in a call of
   *     the JDK's (a channel's, say): then it is still open. Also in a callback under a lock of the allocator
   */
  @Override
  public void close() {
    free(false, 0);
  }

  /**
   * The same, made while another stream is the thread's current one, which matters during captures.
   *
   * @param current the current stream
   */
  public void close(long current) {
    free(true, current);
  }

  private void free(boolean hasCurrent, long current) {
    if (state == null) {
      return;
    }
    AllocatorCore core = allocator.core;
    try (Scratch scratch = Scratch.enter()) {
      // After closeAll() the memory is gone already.
      boolean isThere = scratch.useIfOpen(core);
      Guard guard = giveUp();
      if (guard == null) {
        return;
      }
      ByteBuffer lent = guard.end();
      try {
        if (isThere && lent != null) {
          core.leaveTo(lent, address);
        } else if (isThere) {
          core.free(scratch, address, hasCurrent, current);
        }
      } finally {
        guard.giveBack(scratch);
      }
    }
  }

  /** The guard, for who has ended the block; null for all others. */
  private Guard giveUp() {
    for (Object open = state; open != null; open = state) {
      if (open instanceof Lent lent) {
        return giveUp(lent);
      }
      if (STATE.compareAndSet(this, open, null)) {
        return (Guard) open;
      }
    }
    return null;
  }

  private synchronized Guard giveUp(Lent lent) {
    if (state == null) {
      return null;
    }
    lent.view.end();
    state = null;
    return lent.guard;
  }

  /** The address, for messages. */
  @Override
  public String toString() {
    return String.format("Block(%#x%s)", address, state == null ? ", closed" : "");
  }
}
