// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.util.ArrayList;
import java.util.List;

/**
 * The blocks of a private pool at one moment, to be put back later.
 *
 * @param pool the pool that it was taken of
 * @param segments all blocks of each segment, by address; segments are put back in this order
 */
public record Checkpoint(PoolId pool, List<List<CheckpointBlock>> segments) {
  /**
   * Copies the lists.
   *
   * @param pool the pool that it was taken of
   * @param segments all blocks of each segment, by address
   */
  public Checkpoint {
    segments = segments.stream().map(List::copyOf).toList();
  }

  static Checkpoint take(PoolKey key) {
    try (Scratch scratch = Scratch.enter(key.allocator().core)) {
      scratch.check(Native.checkpointTake(scratch.handle, key.device(), key.id().first(), key.id().second(),
          scratch.out, scratch.error));
      long taken = scratch.outLong();
      try {
        Errors.row(Native.checkpointPool(taken, scratch.out), 0);
        PoolId pool = new PoolId(scratch.outLong(), scratch.outLong(1));
        return new Checkpoint(pool, read(taken, scratch));
      } finally {
        Native.checkpointDestroy(taken);
      }
    }
  }

  private static List<List<CheckpointBlock>> read(long taken, Scratch scratch) {
    List<List<CheckpointBlock>> segments = new ArrayList<>();
    long count = Native.checkpointRowCount(taken);
    for (long i = 0; i < count; i++) {
      Errors.row(Native.checkpointRowAt(taken, i, scratch.sized(Structs.CheckpointRow.SIZE)), i);
      Structs.CheckpointRow row = Structs.CheckpointRow.read(scratch.memory(), Scratch.struct());
      if (row.segment == segments.size()) {
        segments.add(new ArrayList<>());
      }
      segments.get((int) row.segment).add(CheckpointBlock.of(row));
    }
    return segments;
  }

  CheckpointChanges apply(Allocator allocator, int device) {
    try (Scratch scratch = Scratch.enter(allocator.core); Memory memory = new Memory()) {
      scratch.check(Native.checkpointCreate(pool.first(), pool.second(), scratch.out, scratch.error));
      long made = scratch.outLong();
      try {
        write(made, scratch, memory);
        scratch.check(Native.checkpointApply(scratch.handle, device, made, scratch.out, scratch.error));
      } finally {
        Native.checkpointDestroy(made);
      }
      long changes = scratch.outLong();
      try {
        return new CheckpointChanges(
            addresses(changes, Native.checkpointFreedCount(changes), Native::checkpointFreedAt, scratch),
            addresses(changes, Native.checkpointCreatedCount(changes), Native::checkpointCreatedAt, scratch));
      } finally {
        Native.checkpointChangesDestroy(changes);
      }
    }
  }

  private void write(long made, Scratch scratch, Memory memory) {
    for (int segment = 0; segment < segments.size(); segment++) {
      for (CheckpointBlock block : segments.get(segment)) {
        scratch.check(Native.checkpointAdd(made, block.toC(segment).write(memory), scratch.error));
      }
    }
  }

  private interface AddressAt {
    int read(long changes, long index, long outAddress);
  }

  private static List<Long> addresses(long changes, long count, AddressAt at, Scratch scratch) {
    List<Long> addresses = new ArrayList<>();
    for (long i = 0; i < count; i++) {
      Errors.row(at.read(changes, i, scratch.out), i);
      addresses.add(scratch.outLong());
    }
    return addresses;
  }
}
