// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Writes the history of an allocator as a trace while it runs, until this is closed or the allocator ends.
 * {@code docs/debugging.md} tells more.
 */
public final class Recorder implements AutoCloseable {
  private final Allocator allocator;
  /** null: it writes a file. */
  private final Listeners.Ref<OutputStream> stream;
  private final long id;
  private final AtomicBoolean isClosed = new AtomicBoolean();

  private Recorder(Allocator allocator, Listeners.Ref<OutputStream> stream, long id) {
    this.allocator = allocator;
    this.stream = stream;
    this.id = id;
  }

  static Recorder start(Allocator allocator, RecorderOptions options) {
    Structs.RecorderOptions values = options.toC();
    OutputStream to = options.stream();
    Listeners.Ref<OutputStream> ref = to == null ? null : allocator.listeners.add(to);
    if (ref != null) {
      values.write = data -> Scratch.underLock(() -> ref.get(1, each -> write(each, data)));
    }
    try (Scratch scratch = Scratch.enter(allocator.core); Memory memory = new Memory()) {
      scratch.check(Native.recorderStart(scratch.handle, values.write(memory), scratch.out, scratch.error));
      return new Recorder(allocator, ref, scratch.outLong());
    } catch (Throwable thrown) {
      forget(allocator, ref);
      throw thrown;
    }
  }

  private static int write(OutputStream stream, ByteBuffer data) {
    try {
      Streams.write(stream, data);
      return 0;
    } catch (IOException thrown) {
      throw new UncheckedIOException(thrown);
    }
  }

  private static void forget(Allocator allocator, Listeners.Ref<OutputStream> stream) {
    if (stream != null) {
      allocator.listeners.remove(stream);
    }
  }

  private void requireOpen() {
    if (isClosed.get()) {
      throw new IllegalStateException("the recorder is closed");
    }
  }

  /**
   * Writes what is held back: lines for the stream, and texts of contexts.
   *
   * @throws CachalotException if events are lost, now or before
   */
  public void flush() {
    requireOpen();
    allocator.core.call((raw, error) -> Native.recorderFlush(raw, id, error));
  }

  /**
   * What it has written.
   *
   * @return the numbers
   */
  public RecorderStats stats() {
    requireOpen();
    try (Scratch scratch = Scratch.enter(allocator.core)) {
      scratch.check(Native.recorderGetStats(scratch.handle, id, scratch.sized(Structs.RecorderStats.SIZE),
          scratch.error));
      return RecorderStats.of(Structs.RecorderStats.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * The file that it writes.
   *
   * @return its path; "" if there is none
   */
  public String path() {
    requireOpen();
    return allocator.core.text((raw, buffer, capacity, length, error) ->
        Native.recorderPath(raw, id, buffer, capacity, length, error));
  }

  /** Writes the last line, which says how many events are lost, and ends it. Again, or after its allocator: nothing. */
  @Override
  public void close() {
    try (Scratch scratch = Scratch.enterIfOpen(allocator.core)) {
      if (scratch != null && isClosed.compareAndSet(false, true)) {
        scratch.check(Native.recorderStop(scratch.handle, id, scratch.error));
        forget(allocator, stream);
      }
    }
  }
}
