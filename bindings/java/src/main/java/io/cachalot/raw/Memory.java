// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.raw;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Native memory that is lent to the library: what is allocated lives until {@link #close}, so the call for which
 * it was made stands inside the try block.
 *
 * <pre>{@code
 * try (Memory memory = new Memory()) {
 *   ByteBuffer error = memory.sized(Structs.Error.SIZE);
 *   ByteBuffer address = memory.allocate(Long.BYTES);
 *   int status = Native.allocate(allocator, size, 0, 0, Memory.addressOf(address), Memory.addressOf(error));
 *   if (status != Constants.OK) throw new CachalotException(Structs.Error.read(error, 0));
 *   return address.getLong(0);
 * }
 * }</pre>
 */
public final class Memory implements AutoCloseable {
  private final List<ByteBuffer> blocks = new ArrayList<>();
  private List<Long> references = new ArrayList<>();

  /** Memory that is 0. */
  public ByteBuffer allocate(int size) {
    ByteBuffer block = ByteBuffer.allocateDirect(size).order(ByteOrder.nativeOrder());
    blocks.add(block);
    return block;
  }

  /** Memory for a struct that begins with its own size. */
  public ByteBuffer sized(int size) {
    return allocate(size).putLong(0, size);
  }

  /** A text in UTF-8 with its NUL; null is 0. */
  public long text(String text) {
    if (text == null) {
      return 0;
    }
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    return addressOf(allocate(bytes.length + 1).put(bytes));
  }

  /** A reference for user_data that ends with this memory, unless {@link #keep} takes it. */
  public long hold(Object target) {
    long reference = newReference(target);
    references.add(reference);
    return reference;
  }

  /** References that outlive the call for which they were made. */
  @FunctionalInterface
  public interface Keep extends AutoCloseable {
    /** Ends them. For when the object is gone to which they were given. */
    @Override
    void close();
  }

  /** Takes the references over. */
  public Keep keep() {
    List<Long> kept = references;
    references = new ArrayList<>();
    return () -> {
      kept.forEach(Memory::deleteReference);
      kept.clear();
    };
  }

  @Override
  public void close() {
    references.forEach(Memory::deleteReference);
    references.clear();
    blocks.clear();
    Reference.reachabilityFence(this);
  }

  /** The address of a direct buffer's first byte. */
  public static native long addressOf(ByteBuffer buffer);

  /** A reference for user_data that the library ends by its destroy function. */
  public static native long newReference(Object target);

  static native void deleteReference(long reference);

  /** The address of a native function, by its number in {@link Callbacks}. */
  public static native long entry(int number);

  /** The address of some code of the library. */
  public static native long codeAddress();

  private static native ByteBuffer bytesAt(long address, long size);

  private static native long lengthOf(long text);

  /** The library's memory; it must not be used after the library has given it up. */
  public static ByteBuffer view(long address, long size) {
    return bytesAt(address, size).order(ByteOrder.nativeOrder());
  }

  /** A text that ends in NUL; 0 is null. */
  public static String textOf(long address) {
    return address == 0 ? null : StandardCharsets.UTF_8.decode(bytesAt(address, lengthOf(address))).toString();
  }

  /** A text in a struct, up to its NUL. */
  static String textAt(ByteBuffer from, int at, int capacity) {
    int length = 0;
    while (length < capacity && from.get(at + length) != 0) {
      length++;
    }
    return StandardCharsets.UTF_8.decode(from.slice(at, length)).toString();
  }

  /** Writes a text like snprintf. */
  static long copyText(String text, long buffer, long capacity) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    if (capacity > 0) {
      int length = (int) Math.min(bytes.length, capacity - 1);
      view(buffer, capacity).put(bytes, 0, length).put((byte) 0);
    }
    return bytes.length;
  }

  /** What a callback threw goes where uncaught exceptions of its thread go. */
  static void report(Throwable thrown) {
    Thread thread = Thread.currentThread();
    thread.getUncaughtExceptionHandler().uncaughtException(thread, thrown);
  }

  /** Fails if the library that is loaded has another interface than the one these classes were generated for. */
  public static void checkInterface() {
    if (Native.versionNumber() / 100 != Constants.INTERFACE) {
      throw new UnsatisfiedLinkError(
          String.format("cachalot %s has another interface than these classes, which are for %d.%d",
              textOf(Native.version()), Constants.INTERFACE / 100, Constants.INTERFACE % 100));
    }
  }
}
