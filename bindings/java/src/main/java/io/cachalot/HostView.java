// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.function.Consumer;

/** A block's memory as buffers that cannot outlive it unnoticed. */
abstract class HostView {
  abstract ByteBuffer buffer();

  /** Whether the buffer can be used; also after an end that was in vain. */
  abstract boolean isThere();

  /** The buffer for who frees a block that was collected; null where it is the buffer that keeps the block. */
  abstract WeakReference<ByteBuffer> weak();

  /**
   * Takes the memory away from the buffers.
   *
   * @throws IllegalStateException while another thread is reading or writing
   */
  abstract void end();

  /** After the end: a buffer that somebody may have, from which the memory cannot be taken away; else null. */
  abstract ByteBuffer left();

  static HostView of(Block block, long address, int size) {
    return Segments.IS_THERE ? new Ending(block, address, size, true) : new Collected(address, size);
  }

  /** The same of a pinned block, for {@link #part} only; null before Java 22. */
  static HostView ofPinned(PinnedBlock block, long address, long size) {
    return Segments.IS_THERE ? new Ending(block, address, size, false) : null;
  }

  /** A buffer of a part, where parts end with the block. */
  ByteBuffer part(long offset, int length) {
    throw new AssertionError("parts are not taken away from whoever has them");
  }

  /** A segment of an arena, which ends with the block. */
  private static final class Ending extends HostView {
    private final AutoCloseable arena;
    private final Object segment;
    private final ByteBuffer buffer;
    private boolean hasEnded;

    Ending(Object block, long address, long size, boolean isWhole) {
      // The arena keeps what it is to do at its end, so the buffer keeps the block.
      Consumer<Object> keep = segment -> Reference.reachabilityFence(block);
      try {
        arena = (AutoCloseable) Segments.SHARED.invoke();
        segment = Segments.REINTERPRET.invoke(Segments.ADDRESS.invoke(address), size, arena, keep);
        buffer = isWhole ? (ByteBuffer) Segments.BUFFER.invoke(segment) : null;
      } catch (Throwable refused) {
        throw refusal(refused);
      }
    }

    private static IllegalStateException refusal(Throwable refused) {
      return new IllegalStateException("no buffer can be made: " + refused.getMessage(), refused);
    }

    @Override
    ByteBuffer part(long offset, int length) {
      try {
        return (ByteBuffer) Segments.BUFFER.invoke(Segments.SLICE.invoke(segment, offset, (long) length));
      } catch (Throwable refused) {
        throw refusal(refused);
      }
    }

    @Override
    ByteBuffer buffer() {
      return buffer;
    }

    @Override
    synchronized boolean isThere() {
      return !hasEnded;
    }

    @Override
    WeakReference<ByteBuffer> weak() {
      return null;
    }

    @Override
    ByteBuffer left() {
      return null;
    }

    @Override
    synchronized void end() {
      if (hasEnded) {
        return;
      }
      try {
        arena.close();
      } catch (RuntimeException inUse) {
        throw inUse;
      } catch (Exception impossible) {
        throw new AssertionError(impossible);
      }
      hasEnded = true;
    }
  }

  /** Before Java 22: the memory stays until nobody has a buffer. Those made from it keep it. */
  private static final class Collected extends HostView {
    private final WeakReference<ByteBuffer> buffer;
    /** As long as the block is open it has the buffer. */
    private volatile ByteBuffer kept;

    Collected(long address, int size) {
      kept = address == 0 ? ByteBuffer.allocateDirect(0) : Memory.view(address, size).order(ByteOrder.BIG_ENDIAN);
      buffer = new WeakReference<>(kept);
    }

    @Override
    ByteBuffer buffer() {
      return kept;
    }

    @Override
    boolean isThere() {
      kept = buffer.get();
      return kept != null;
    }

    @Override
    WeakReference<ByteBuffer> weak() {
      return buffer;
    }

    @Override
    void end() {
      kept = null;
    }

    @Override
    ByteBuffer left() {
      return buffer.get();
    }
  }

  /** Java's foreign memory, as far as it is needed here; Java 17 has none that is final. */
  private static final class Segments {
    static final MethodHandle SHARED;
    static final MethodHandle ADDRESS;
    static final MethodHandle REINTERPRET;
    static final MethodHandle SLICE;
    static final MethodHandle BUFFER;
    static final boolean IS_THERE = Runtime.version().feature() >= 22;

    static {
      MethodHandle shared = null;
      MethodHandle address = null;
      MethodHandle reinterpret = null;
      MethodHandle slice = null;
      MethodHandle buffer = null;
      if (IS_THERE) {
        try {
          MethodHandles.Lookup lookup = MethodHandles.lookup();
          Class<?> arena = Class.forName("java.lang.foreign.Arena");
          Class<?> segment = Class.forName("java.lang.foreign.MemorySegment");
          shared = lookup.findStatic(arena, "ofShared", MethodType.methodType(arena));
          address = lookup.findStatic(segment, "ofAddress", MethodType.methodType(segment, long.class));
          reinterpret = lookup.findVirtual(segment, "reinterpret",
              MethodType.methodType(segment, long.class, arena, Consumer.class));
          slice = lookup.findVirtual(segment, "asSlice", MethodType.methodType(segment, long.class, long.class));
          buffer = lookup.findVirtual(segment, "asByteBuffer", MethodType.methodType(ByteBuffer.class));
        } catch (ReflectiveOperationException impossible) {
          throw new ExceptionInInitializerError(impossible);
        }
      }
      SHARED = shared;
      ADDRESS = address;
      REINTERPRET = reinterpret;
      SLICE = slice;
      BUFFER = buffer;
    }
  }
}
