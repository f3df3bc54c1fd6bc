// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Callbacks;
import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** A recorded run. It never changes, so any thread may read it. {@code docs/trace-format.md} describes the file. */
public final class Trace implements AutoCloseable {
  private final Resource resource;

  private Trace(long address) {
    resource = new Raw(address);
    Cleaners.register(this, resource);
  }

  private static final class Raw extends Resource {
    Raw(long address) {
      super("trace", address);
    }

    @Override
    void destroy(long address, Scratch scratch) {
      Native.traceDestroy(address);
    }
  }

  /**
   * Reads a trace to the end of the stream.
   *
   * @param stream the text
   * @return the trace; close it
   * @throws IOException what the stream throws
   * @throws CachalotException for input that is no trace, with the number of the line
   */
  public static Trace read(InputStream stream) throws IOException {
    Objects.requireNonNull(stream, "stream");
    Streams streams = new Streams();
    try (Scratch scratch = Scratch.enter(); Memory memory = new Memory()) {
      int status = Native.traceRead(Memory.entry(Callbacks.READ_FN), memory.hold(streams.from(stream)), scratch.out,
          scratch.error);
      streams.check(scratch, status);
      return Cleaners.own(scratch.outLong(), Trace::new, Native::traceDestroy);
    }
  }

  /**
   * Reads a file.
   *
   * @param path the file
   * @return the trace; close it
   * @throws IOException if it cannot be read
   */
  public static Trace read(Path path) throws IOException {
    try (InputStream stream = new BufferedInputStream(Files.newInputStream(Objects.requireNonNull(path, "path")))) {
      return read(stream);
    }
  }

  /**
   * Writes the history in a snapshot as a trace.
   *
   * @param snapshot with a history
   * @param stats the statistics to be recorded; null: none
   * @param workload what was run
   * @param stream gets the text
   * @throws IOException what the stream throws
   */
  public static void write(Snapshot snapshot, Stats stats, String workload, OutputStream stream)
      throws IOException {
    Objects.requireNonNull(snapshot, "snapshot");
    Objects.requireNonNull(workload, "workload");
    Objects.requireNonNull(stream, "stream");
    Streams streams = new Streams();
    try (Scratch scratch = Scratch.enter(snapshot.resource); Memory memory = new Memory()) {
      int status = Native.traceWrite(scratch.handle, stats == null ? 0 : stats.toC().write(memory),
          Texts.toC(memory, workload), Memory.entry(Callbacks.WRITE_FN), memory.hold(streams.to(stream)),
          scratch.error);
      streams.check(scratch, status);
    }
  }

  /**
   * What it says of itself.
   *
   * @return the numbers and texts
   */
  public TraceInfo info() {
    try (Scratch scratch = Scratch.enter(resource)) {
      Errors.row(Native.traceGetInfo(scratch.handle, scratch.sized(Structs.TraceInfo.SIZE)), 0);
      return TraceInfo.of(Structs.TraceInfo.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * One event.
   *
   * @param index 0 and up
   * @return the event
   * @throws IndexOutOfBoundsException past the last
   */
  public TraceEvent event(long index) {
    try (Scratch scratch = Scratch.enter(resource)) {
      Errors.row(Native.traceGetEvent(scratch.handle, index, scratch.sized(Structs.TraceEvent.SIZE)), index);
      return TraceEvent.of(Structs.TraceEvent.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * The calls that led to the events with a context.
   *
   * @param context as events have it
   * @return the calls, the innermost first; none if the trace does not tell them
   */
  public List<TraceFrame> stack(long context) {
    List<TraceFrame> frames = new ArrayList<>();
    try (Scratch scratch = Scratch.enter(resource)) {
      while (Native.traceGetFrame(scratch.handle, context, frames.size(), scratch.sized(Structs.TraceFrame.SIZE))
          == Constants.OK) {
        frames.add(TraceFrame.of(Structs.TraceFrame.read(scratch.memory(), Scratch.struct())));
      }
    }
    return List.copyOf(frames);
  }

  /**
   * What the trace tells of a context.
   *
   * @param context as events have it
   * @return its label, or its stack, one call a line, the innermost first; "" if it tells nothing
   */
  public String contextText(long context) {
    try (Scratch scratch = Scratch.enter(resource)) {
      return Texts.of(scratch, (buffer, capacity, length, error) ->
          Native.traceContextText(scratch.handle, context, buffer, capacity, length));
    }
  }

  /**
   * The recorded statistics.
   *
   * @return name and number, in the order of the file
   */
  public Map<String, Long> stats() {
    long count = info().statCount();
    Map<String, Long> stats = new LinkedHashMap<>();
    try (Scratch scratch = Scratch.enter(resource)) {
      for (long i = 0; i < count; i++) {
        Errors.row(Native.traceGetStat(scratch.handle, i, scratch.out, scratch.out(1)), i);
        stats.put(Memory.textOf(scratch.outLong()), scratch.outLong(1));
      }
    }
    return stats;
  }

  /**
   * Replays the trace: allocations, frees, uses on other streams, empty-cache calls.
   *
   * @param options how
   * @return what came of it; close it
   * @throws CachalotException for a trace that cannot have happened
   */
  public Replay replay(ReplayOptions options) {
    Objects.requireNonNull(options, "options");
    try (Scratch scratch = Scratch.enter(resource); Memory memory = new Memory()) {
      ReplayOptions.Watched watched = options.watched();
      int status = Native.replayRun(scratch.handle, options.toC(watched).write(memory), scratch.out, scratch.error);
      if (watched.hasThrown()) {
        // A replay that ended at a failed request has worked: it asks for no progress then.
        Native.replayDestroy(scratch.outLong());
      }
      watched.rethrow();
      scratch.check(status);
      return Cleaners.own(scratch.outLong(), Replay::new, Native::replayDestroy);
    }
  }

  /**
   * Writes a run as a script for the oracle ({@code tests/oracle/FORMAT.md}).
   *
   * @param options as of {@link #replay}
   * @param stream gets the text
   * @throws IOException what the stream throws
   */
  public void writeScript(ReplayOptions options, OutputStream stream) throws IOException {
    Objects.requireNonNull(options, "options");
    Objects.requireNonNull(stream, "stream");
    Streams streams = new Streams();
    try (Scratch scratch = Scratch.enter(resource); Memory memory = new Memory()) {
      ReplayOptions.Watched watched = options.watched();
      int status = Native.replayWriteScript(scratch.handle, options.toC(watched).write(memory),
          Memory.entry(Callbacks.WRITE_FN), memory.hold(streams.to(stream)), scratch.error);
      watched.rethrow();
      streams.check(scratch, status);
    }
  }

  /** Ends the trace. Again: nothing. */
  @Override
  public void close() {
    resource.close();
  }
}
