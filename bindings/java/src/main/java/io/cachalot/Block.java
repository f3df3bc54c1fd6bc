// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Memory that was handed out, with its owner: closing frees it, and so does the collector for a block that nobody
 * closed. It keeps its allocator. Any thread may use and free it.
 *
 * <p>The memory of a device is reused by the next request that fits, not when the collector finds the time: close
 * blocks. Where a block of its own costs too much there is {@link Allocator#allocateUnowned}.
 */
public final class Block implements AutoCloseable {
  private final Allocator allocator;
  private final Memory memory;
  private final Cleaner.Cleanable cleanable;
  /** What was lent to code that reads and writes the memory; under this object's lock. */
  private HostView view;

  /** What is left of a block when it has been collected. */
  private static final class Memory implements Runnable {
    final AllocatorCore core;
    final long address;
    final AtomicBoolean isGivenUp = new AtomicBoolean();
    /** A buffer that does not keep the block. */
    volatile WeakReference<ByteBuffer> lent;

    Memory(AllocatorCore core, long address) {
      this.core = core;
      this.address = address;
    }

    @Override
    public void run() {
      if (isGivenUp.compareAndSet(false, true) && !isLeftToBuffer()) {
        core.freeAbandoned(address);
      }
    }

    /** Whether somebody has such a buffer still; then the memory is freed after it. */
    boolean isLeftToBuffer() {
      ByteBuffer buffer = lent == null ? null : lent.get();
      if (buffer == null) {
        return false;
      }
      core.leaveToBuffer();
      Cleaners.register(buffer, new Rest(core, address));
      return true;
    }
  }

  /** Memory of a closed block, of which somebody has a buffer. */
  private static final class Rest implements Runnable {
    private final AllocatorCore core;
    private final long address;

    Rest(AllocatorCore core, long address) {
      this.core = core;
      this.address = address;
    }

    @Override
    public void run() {
      core.freeAfterBuffer(address);
    }
  }

  Block(Allocator allocator, long address) {
    this.allocator = allocator;
    memory = new Memory(allocator.core, address);
    cleanable = address == 0 ? null : Cleaners.register(this, memory);
  }

  /**
   * The block's first byte.
   *
   * @return the address; 0 for a request of 0 bytes
   * @throws IllegalStateException if the block is closed
   */
  public long address() {
    if (memory.isGivenUp.get()) {
      throw closed();
    }
    if (memory.core.isClosed()) {
      throw memory.core.closed();
    }
    return memory.address;
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
      return allocator.blockAt(address());
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
    long address = address();
    try (Scratch scratch = Scratch.enter(memory.core)) {
      scratch.check(Native.recordStreamOnStream(scratch.handle, address, stream, current, scratch.error));
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
   * before ends with the last of them.
   *
   * @return what was requested, as a direct buffer; the same one each time, so position and limit are shared
   * @throws UnsupportedOperationException for a driver whose addresses can not be dereferenced
   * @throws IllegalStateException if the block is closed
   */
  public ByteBuffer asByteBuffer() {
    long address = address();
    if (!allocator.driverName().equals("host")) {
      throw new UnsupportedOperationException("only blocks of the host driver can be read and written");
    }
    synchronized (this) {
      if (view == null) {
        long size = address == 0 ? 0 : info().requested();
        if (size > Integer.MAX_VALUE) {
          throw new UnsupportedOperationException("a buffer has 2 GiB at most, the block has " + size + " bytes");
        }
        view = HostView.of(this, address, (int) size);
        memory.lent = view.keepsBlock() ? null : new WeakReference<>(view.buffer());
        memory.core.lent(view);
      }
      return view.buffer();
    }
  }

  /**
   * Gives the block away as a number: nothing frees it until it is taken back ({@link Allocator#adopt}) or freed
   * ({@link Allocator#free}).
   *
   * @return the address
   * @throws IllegalStateException if it is closed, or there is a buffer of it
   */
  public long leak() {
    synchronized (this) {
      if (view != null) {
        throw new IllegalStateException("there is a buffer of the block");
      }
      if (!memory.isGivenUp.compareAndSet(false, true)) {
        throw closed();
      }
    }
    forget();
    return memory.address;
  }

  private void forget() {
    if (cleanable != null) {
      cleanable.clean();
    }
  }

  /**
   * Frees the block: it is reused at once on its own stream; after {@link #recordStream} only when the work recorded
   * there is done. Again: nothing.
   *
   * @throws DriverException the block is given up all the same
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

  private synchronized void free(boolean hasCurrent, long current) {
    if (memory.isGivenUp.get()) {
      return;
    }
    // After closeAll() the memory is gone already.
    try (Scratch scratch = Scratch.enterIfOpen(memory.core)) {
      if (view != null) {
        view.end();
        view = null;
      }
      memory.isGivenUp.set(true);
      if (scratch != null && !memory.isLeftToBuffer()) {
        memory.core.free(scratch, memory.address, hasCurrent, current);
      }
    } finally {
      if (memory.isGivenUp.get()) {
        forget();
      }
    }
  }

  /** The address, for messages. */
  @Override
  public String toString() {
    return String.format("Block(%#x%s)", memory.address, memory.isGivenUp.get() ? ", closed" : "");
  }
}
