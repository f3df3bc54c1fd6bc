// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Pinned host memory, with its owner: buffers that copies to and from devices go through without a stop. Closing
 * gives it back to the cache, and so does the collector for a block that nobody closed. It keeps its allocator.
 * Any thread may use and close it.
 *
 * <pre>{@code
 * try (PinnedBlock staging = allocator.allocatePinned(1 << 20)) {
 *   staging.buffer().put(data);
 *   copyToDevice(block.address(), staging.address(), stream);  // returns at once
 *   staging.recordStream(0, stream);
 * }  // handed out again when the copy is done
 * }</pre>
 *
 * <p>Until a copy is done the program leaves alone what it writes, and does not change what it reads: nothing here
 * waits for a stream.
 */
public final class PinnedBlock implements AutoCloseable {
  private final Allocator allocator;
  private final long address;
  private final long size;
  private final Core core;
  private final Cleaner.Cleanable cleanable;
  /** What its buffers end with, from Java 22 on. Guarded by this. */
  private HostView view;

  /** What is left of it when it has been collected. */
  private static final class Core implements Runnable {
    private final AllocatorCore owner;
    /** It counts as closed until there is memory. */
    private final AtomicBoolean isClosed = new AtomicBoolean(true);
    private long address;

    Core(AllocatorCore owner) {
      this.owner = owner;
    }

    void begin(long address) {
      this.address = address;
      owner.pinnedBlockBegins();
      isClosed.set(false);
    }

    @Override
    public void run() {
      if (isClosed.compareAndSet(false, true)) {
        owner.freePinnedAbandoned(address);
      }
    }
  }

  private PinnedBlock(Allocator allocator, long size, AllocatorCore.Ask request) {
    this.allocator = allocator;
    this.size = size;
    core = new Core(allocator.core);
    cleanable = Cleaners.register(this, core);
    try (Scratch scratch = Scratch.enter(allocator.core)) {
      scratch.clearOut();
      scratch.check(Ambient.call(() -> request.call(scratch.handle, scratch.out, scratch.error)));
      address = scratch.outLong();
      core.begin(address);
    }
  }

  static PinnedBlock allocate(Allocator allocator, long size) {
    return new PinnedBlock(allocator, size, (owner, out, error) -> Native.pinnedAllocate(owner, size, out, error));
  }

  static PinnedBlock allocate(Allocator allocator, long size, int device, long current) {
    return new PinnedBlock(allocator, size, (owner, out, error) ->
        Native.pinnedAllocateOnStream(owner, size, device, current, out, error));
  }

  private IllegalStateException closed() {
    return new IllegalStateException("the pinned block is closed");
  }

  private void refuseClosed() {
    if (core.isClosed.get()) {
      throw closed();
    }
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
   * What was requested.
   *
   * @return bytes
   */
  public long size() {
    return size;
  }

  /**
   * The block's first byte, at a multiple of 512.
   *
   * @return the address; 0 for a request of 0 bytes
   * @throws IllegalStateException if the block is closed
   */
  public long address() {
    refuseClosed();
    if (allocator.core.isClosed()) {
      throw allocator.core.closed();
    }
    return address;
  }

  /**
   * What the block has, since requests are rounded up.
   *
   * @return bytes, at least {@link #size}; 0 for an empty block
   * @throws IllegalStateException if the block is closed
   */
  public long blockSize() {
    try (Scratch scratch = Scratch.enter(allocator.core)) {
      if (address() == 0) {
        return 0;
      }
      scratch.check(Native.pinnedSize(scratch.handle, address, scratch.out, scratch.error));
      return scratch.outLong();
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * The block's memory as a direct buffer; see {@link #buffer(long, int)}.
   *
   * @return what was requested, a new buffer each time
   * @throws UnsupportedOperationException for more than 2 GiB: take parts; also for a driver that was made in C
   * @throws IllegalStateException if the block is closed
   */
  public ByteBuffer buffer() {
    if (size > Integer.MAX_VALUE) {
      throw new UnsupportedOperationException("a buffer has 2 GiB at most, the block has " + size + " bytes");
    }
    return buffer(0, (int) size);
  }

  /**
   * A part of the block's memory as a direct buffer. Big-endian at first, as every buffer. A buffer, and all that
   * are made from it, keep the block from being collected.
   *
   * <p>On Java 22 and later they throw {@link IllegalStateException} once the block has been closed. Before,
   * nothing can be taken away from a buffer, and the memory is somebody else's as soon as the block is closed: do
   * not use a buffer of a closed block, nor of a closed allocator ({@link Allocator#closeAll}).
   *
   * @param offset where the part begins
   * @param length how many bytes it has
   * @return a new buffer each time, with position and limit of its own
   * @throws IndexOutOfBoundsException for a part that does not lie within what was requested
   * @throws UnsupportedOperationException for a driver that was made in C, whose addresses need not be memory
   * @throws IllegalStateException if the block is closed
   */
  public ByteBuffer buffer(long offset, int length) {
    Objects.checkFromIndexSize(offset, length, size);
    // In use, so that the allocator is not closed between the block's look and the buffer's entry.
    Scratch inUse = Scratch.enter(allocator.core);
    try {
      if (allocator.driverName().equals("custom")) {
        throw new UnsupportedOperationException("memory of a driver that was made in C is no buffer");
      }
      synchronized (this) {
        refuseClosed();
        return address == 0 ? ByteBuffer.allocateDirect(0) : part(offset, length);
      }
    } finally {
      inUse.close();
    }
  }

  private ByteBuffer part(long offset, int length) {
    if (view == null || !view.isThere()) {
      view = HostView.ofPinned(this, address, size);
      if (view == null) {
        return kept(Memory.view(address + offset, length).order(ByteOrder.BIG_ENDIAN));
      }
      allocator.core.lent(view, null);
    }
    return view.part(offset, length);
  }

  /** A buffer that keeps this: what a cleaner is to do for it does. */
  private ByteBuffer kept(ByteBuffer buffer) {
    Cleaners.register(buffer, () -> Reference.reachabilityFence(this));
    return buffer;
  }

  /**
   * Says that a stream uses the block: call it behind each copy that the host does not wait for, before the block
   * is closed. After that it stays out of use until the work is done that the stream had been given until it was
   * closed. An empty block: nothing.
   *
   * @param device of the stream
   * @param stream the stream
   * @throws IllegalArgumentException for a device that the driver does not have
   * @throws IllegalStateException if the block is closed
   */
  public void recordStream(int device, long stream) {
    try {
      if (address() != 0) {
        allocator.core.call((owner, error) -> Native.pinnedRecordStream(owner, address, device, stream, error));
      }
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Gives the block back. It waits for no stream; see {@link #recordStream}. Again, or after its allocator:
   * nothing.
   *
   * @throws DriverException the block is given up all the same
   * @throws IllegalStateException on Java 22 and later, while another thread reads or writes a buffer of it in a
   *     call of the JDK's (a channel's, say): then it is still open. Also in a callback under a lock of the
   *     allocator
   */
  @Override
  public void close() {
    if (core.isClosed.get()) {
      return;
    }
    try (Scratch scratch = Scratch.enterIfOpen(allocator.core)) {
      if (giveUp() && scratch != null) {
        allocator.core.freePinned(scratch, address);
      }
    }
    cleanable.clean();
  }

  /** For who has ended the block. */
  private synchronized boolean giveUp() {
    if (!core.isClosed.get() && view != null) {
      view.end();
    }
    return core.isClosed.compareAndSet(false, true);
  }

  /** Address and size, for messages. */
  @Override
  public String toString() {
    return String.format("PinnedBlock(%#x, %d bytes%s)", address, size, core.isClosed.get() ? ", closed" : "");
  }
}
