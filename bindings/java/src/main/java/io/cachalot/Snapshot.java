// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Callbacks;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * A picture of an allocator: segments, blocks, history, options. It keeps nothing alive and never changes, so it may
 * outlive the allocator, and any thread may read it.
 */
public final class Snapshot implements AutoCloseable {
  final Resource resource;

  Snapshot(long address) {
    resource = new Raw(address);
    Cleaners.register(this, resource);
  }

  private static final class Raw extends Resource {
    Raw(long address) {
      super("snapshot", address);
    }

    @Override
    void destroy(long address, Scratch scratch) {
      Native.snapshotDestroy(address);
    }
  }

  static Snapshot take(Allocator allocator, SnapshotOptions options) {
    try (Scratch scratch = Scratch.enter(allocator.core); Memory memory = new Memory()) {
      scratch.check(Native.snapshotTake(scratch.handle, options.values.write(memory), scratch.out, scratch.error));
      return Cleaners.own(scratch.outLong(), Snapshot::new, Native::snapshotDestroy);
    }
  }

  /**
   * How many segments there are, without reading them.
   *
   * @return the number
   */
  public long segmentCount() {
    try (Scratch scratch = Scratch.enter(resource)) {
      return Native.snapshotSegmentCount(scratch.handle);
    }
  }

  /**
   * How many blocks there are, without reading them.
   *
   * @return the number
   */
  public long blockCount() {
    try (Scratch scratch = Scratch.enter(resource)) {
      return Native.snapshotBlockCount(scratch.handle);
    }
  }

  /**
   * All segments with their blocks: devices in order, then by address.
   *
   * @return the list
   */
  public List<Segment> segments() {
    List<Segment> segments = new ArrayList<>();
    try (Scratch scratch = Scratch.enter(resource)) {
      long count = Native.snapshotSegmentCount(scratch.handle);
      for (long i = 0; i < count; i++) {
        Errors.row(Native.snapshotSegment(scratch.handle, i, scratch.sized(Structs.SegmentRow.SIZE)), i);
        Structs.SegmentRow row = Structs.SegmentRow.read(scratch.memory(), Scratch.struct());
        segments.add(Segment.of(row, blocks(scratch, row.firstBlock, row.blockCount)));
      }
    }
    return List.copyOf(segments);
  }

  private static List<SegmentBlock> blocks(Scratch scratch, long first, long count) {
    List<SegmentBlock> blocks = new ArrayList<>((int) count);
    for (long i = first; i < first + count; i++) {
      Errors.row(Native.snapshotBlock(scratch.handle, i, scratch.sized(Structs.BlockRow.SIZE)), i);
      blocks.add(SegmentBlock.of(Structs.BlockRow.read(scratch.memory(), Scratch.struct())));
    }
    return List.copyOf(blocks);
  }

  /**
   * The history of a device.
   *
   * @param device the device
   * @return its entries, oldest first; empty without history
   */
  public List<TraceEntry> history(int device) {
    List<TraceEntry> entries = new ArrayList<>();
    try (Scratch scratch = Scratch.enter(resource)) {
      long count = Native.snapshotEntryCount(scratch.handle, device);
      for (long i = 0; i < count; i++) {
        Errors.row(Native.snapshotEntry(scratch.handle, device, i, scratch.sized(Structs.TraceEntry.SIZE)), i);
        entries.add(TraceEntry.of(Structs.TraceEntry.read(scratch.memory(), Scratch.struct())));
      }
    }
    return List.copyOf(entries);
  }

  /**
   * The options at that moment, as numbers.
   *
   * @return the settings
   */
  public Settings settings() {
    try (Scratch scratch = Scratch.enter(resource)) {
      Errors.row(Native.snapshotSettings(scratch.handle, scratch.sized(Structs.Settings.SIZE)), 0);
      return Settings.of(Structs.Settings.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * The last option string then.
   *
   * @return the text, word for word
   */
  public String options() {
    try (Scratch scratch = Scratch.enter(resource)) {
      return Memory.textOf(Native.snapshotConfig(scratch.handle));
    }
  }

  /**
   * Writes the snapshot as PyTorch's {@code torch.cuda.memory._dump_snapshot} does, for memory_viz.
   *
   * @param allocator explains contexts ({@link Allocator#contextText}): a line {@code FILE:LINE:FUNCTION} is a frame
   *     with all three, any other line one with that name; null: they have no frames, but for those of a replay, which
   *     its snapshot explains itself
   * @param stream gets the bytes
   * @throws IOException what the stream throws
   */
  public void writePickle(Allocator allocator, OutputStream stream) throws IOException {
    Objects.requireNonNull(stream, "stream");
    Streams streams = new Streams();
    try (Scratch scratch = Scratch.enter(resource); Memory memory = new Memory();
        Scratch explains = allocator == null ? null : Scratch.enter(allocator.core)) {
      int status = Native.snapshotWritePickle(scratch.handle, explains == null ? 0 : explains.handle,
          Memory.entry(Callbacks.WRITE_FN), memory.hold(streams.to(stream)), scratch.error);
      streams.check(scratch, status);
    }
  }

  /** Ends the snapshot. Again: nothing. */
  @Override
  public void close() {
    resource.close();
  }
}
