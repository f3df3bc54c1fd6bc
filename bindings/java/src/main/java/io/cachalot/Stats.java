// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * The statistics of one device, as {@code torch.cuda.memory_stats} has them.
 *
 * @param allocation blocks handed out
 * @param segment segments obtained (expandable ones are not counted)
 * @param active blocks handed out, or waiting for recorded streams after their free
 * @param inactiveSplit free pieces of segments that are partly in use, so that no release can give them back
 * @param allocatedBytes bytes handed out
 * @param reservedBytes bytes obtained from the driver
 * @param activeBytes bytes of active blocks
 * @param inactiveSplitBytes bytes of inactive pieces
 * @param requestedBytes what callers asked for, of the active blocks
 * @param oversizeAllocations blocks of max_split_size and more
 * @param oversizeSegments segments of max_split_size and more
 * @param numAllocRetries requests to the driver after the whole cache was released
 * @param numOoms out-of-memory errors given to callers
 * @param numSyncAllStreams waits for all recorded streams
 * @param numDeviceAlloc segments obtained or ranges mapped
 * @param numDeviceFree segments given back or ranges unmapped
 * @param maxSplitSize the option max_split_size in bytes when the allocator was made; -1: unlimited
 * @param numOomRejections requests refused by throw_on_cudamalloc_oom (since 2.12)
 */
public record Stats(
    StatArray allocation, StatArray segment, StatArray active, StatArray inactiveSplit, StatArray allocatedBytes,
    StatArray reservedBytes, StatArray activeBytes, StatArray inactiveSplitBytes, StatArray requestedBytes, Stat
    oversizeAllocations, Stat oversizeSegments, long numAllocRetries, long numOoms, long numSyncAllStreams, long
    numDeviceAlloc, long numDeviceFree, long maxSplitSize, long numOomRejections) {
  /**
   * The rows of {@code torch.cuda.memory_stats} by name, {@code active.all.allocated} and so on, in its order.
   *
   * @param release the release whose rows they are
   * @return name and number
   */
  public Map<String, Long> rows(Release release) {
    Objects.requireNonNull(release, "release");
    Library.load();
    Map<String, Long> rows = new LinkedHashMap<>();
    try (Memory memory = new Memory()) {
      ByteBuffer row = memory.allocate(2 * Long.BYTES);
      long stats = toC().write(memory);
      long name = Memory.addressOf(row);
      for (long i = 0; Native.statsAt(stats, release.number(), i, name, name + Long.BYTES) == Constants.OK; i++) {
        rows.put(Memory.textOf(row.getLong(0)), row.getLong(Long.BYTES));
      }
    }
    return rows;
  }

  Structs.Stats toC() {
    Structs.Stats stats = new Structs.Stats();
    stats.allocation = allocation.toC();
    stats.segment = segment.toC();
    stats.active = active.toC();
    stats.inactiveSplit = inactiveSplit.toC();
    stats.allocatedBytes = allocatedBytes.toC();
    stats.reservedBytes = reservedBytes.toC();
    stats.activeBytes = activeBytes.toC();
    stats.inactiveSplitBytes = inactiveSplitBytes.toC();
    stats.requestedBytes = requestedBytes.toC();
    stats.oversizeAllocations = oversizeAllocations.toC();
    stats.oversizeSegments = oversizeSegments.toC();
    stats.numAllocRetries = numAllocRetries;
    stats.numOoms = numOoms;
    stats.numSyncAllStreams = numSyncAllStreams;
    stats.numDeviceAlloc = numDeviceAlloc;
    stats.numDeviceFree = numDeviceFree;
    stats.maxSplitSize = maxSplitSize;
    stats.numOomRejections = numOomRejections;
    return stats;
  }

  static Stats of(Structs.Stats from) {
    return new Stats(
        StatArray.of(from.allocation), StatArray.of(from.segment), StatArray.of(from.active),
        StatArray.of(from.inactiveSplit), StatArray.of(from.allocatedBytes), StatArray.of(from.reservedBytes),
        StatArray.of(from.activeBytes), StatArray.of(from.inactiveSplitBytes), StatArray.of(from.requestedBytes),
        Stat.of(from.oversizeAllocations), Stat.of(from.oversizeSegments), from.numAllocRetries, from.numOoms,
        from.numSyncAllStreams, from.numDeviceAlloc, from.numDeviceFree, from.maxSplitSize, from.numOomRejections);
  }
}
