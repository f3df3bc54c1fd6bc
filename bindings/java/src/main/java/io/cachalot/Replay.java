// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.util.ArrayList;
import java.util.List;

/** A replay that has ended, with its allocator. */
public final class Replay implements AutoCloseable {
  private final Raw resource;
  private final Allocator allocator;

  Replay(long address) {
    AllocatorCore core = new AllocatorCore(Native.replayAllocator(address), null, true);
    resource = new Raw(address, core);
    allocator = new Allocator(core, new Listeners(), this);
    Cleaners.register(this, resource);
  }

  /** The replay's allocator ends with it. */
  private static final class Raw extends Resource {
    private final AllocatorCore core;

    Raw(long address, AllocatorCore core) {
      super("replay", address);
      this.core = core;
    }

    @Override
    void destroy(long address, Scratch scratch) {
      core.close();
      Native.replayDestroy(address);
    }
  }

  /**
   * What came of it.
   *
   * @return the numbers
   */
  public ReplayResult result() {
    try (Scratch scratch = Scratch.enter(resource)) {
      Errors.row(Native.replayGetResult(scratch.handle, scratch.sized(Structs.ReplayResult.SIZE)), 0);
      return ReplayResult.of(Structs.ReplayResult.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * The driver's calls by which it obtained memory and gave it back.
   *
   * @return the rows, by function, then by size
   */
  public List<ReplayCall> calls() {
    List<ReplayCall> rows = new ArrayList<>();
    try (Scratch scratch = Scratch.enter(resource)) {
      long count = Native.replayCallCount(scratch.handle);
      for (long i = 0; i < count; i++) {
        Errors.row(Native.replayGetCall(scratch.handle, i, scratch.sized(Structs.ReplayCall.SIZE)), i);
        rows.add(ReplayCall.of(Structs.ReplayCall.read(scratch.memory(), Scratch.struct())));
      }
    }
    return List.copyOf(rows);
  }

  /**
   * Takes a snapshot of the allocator at the end of the run. Its history is that of the replay, with the times and the
   * contexts of the recording; where {@link ReplayOptions#expect} found no difference it is the recorded one.
   *
   * @return the snapshot; close it
   * @throws IllegalStateException without {@link ReplayOptions#history}
   */
  public Snapshot snapshot() {
    try (Scratch scratch = Scratch.enter(resource)) {
      scratch.check(Native.replaySnapshot(scratch.handle, scratch.out, scratch.error));
      return Cleaners.own(scratch.outLong(), Snapshot::new, Native::snapshotDestroy);
    }
  }

  /**
   * The allocator at the end of the run, to be asked for statistics, summary and snapshot. It ends with the replay.
   *
   * @return the allocator
   */
  public Allocator allocator() {
    return allocator;
  }

  /** Ends the replay and its allocator. Again: nothing. */
  @Override
  public void close() {
    resource.close();
  }
}
