// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.golden;

import io.cachalot.BlockState;
import io.cachalot.PoolId;
import io.cachalot.PoolStats;
import io.cachalot.Release;
import io.cachalot.Segment;
import io.cachalot.SegmentBlock;
import io.cachalot.Settings;
import io.cachalot.Snapshot;
import io.cachalot.SnapshotOptions;
import io.cachalot.Stat;
import io.cachalot.StatArray;
import io.cachalot.Stats;
import io.cachalot.TraceEntry;
import java.math.BigDecimal;
import java.math.MathContext;
import java.util.List;

/** The answers to a script's questions, printed as the oracle prints them. */
final class Answers {
  private final Script script;

  Answers(Script script) {
    this.script = script;
  }

  static String numbers(Stat stat) {
    return stat.current() + " " + stat.peak() + " " + stat.allocated() + " " + stat.freed();
  }

  private void byKind(String name, StatArray stats) {
    script.add("= " + name + ".all " + numbers(stats.all()));
    script.add("= " + name + ".small_pool " + numbers(stats.smallPool()));
    script.add("= " + name + ".large_pool " + numbers(stats.largePool()));
  }

  void stats() {
    Stats stats = script.worked(() -> script.allocator.stats(0));
    if (stats == null) {
      return;
    }
    byKind("allocation", stats.allocation());
    byKind("segment", stats.segment());
    byKind("active", stats.active());
    byKind("inactive_split", stats.inactiveSplit());
    byKind("allocated_bytes", stats.allocatedBytes());
    byKind("reserved_bytes", stats.reservedBytes());
    byKind("active_bytes", stats.activeBytes());
    byKind("inactive_split_bytes", stats.inactiveSplitBytes());
    byKind("requested_bytes", stats.requestedBytes());
    script.add("= oversize_allocations " + numbers(stats.oversizeAllocations()));
    script.add("= oversize_segments " + numbers(stats.oversizeSegments()));
    script.add("= counters retries " + stats.numAllocRetries() + " ooms " + stats.numOoms() + " syncs "
        + stats.numSyncAllStreams() + " device_alloc " + stats.numDeviceAlloc() + " device_free "
        + stats.numDeviceFree() + " max_split " + stats.maxSplitSize());
    if (script.release != Release.V2_15) {
      return;
    }
    script.add("= rejections " + stats.numOomRejections());
    List<PoolStats> rows = script.worked(() -> script.allocator.poolStats(0));
    for (PoolStats row : rows == null ? List.<PoolStats>of() : rows) {
      byKind("reserved_bytes_by_private_pools." + row.pool().first() + "," + row.pool().second(),
          row.reservedBytes());
    }
  }

  /** A context is the number of the operation that it was captured in. */
  private String contextMark(long context) {
    return !script.log.contains("context") ? "" : context == 0 ? " no line" : " line " + context;
  }

  void snapshot(PoolId pool) {
    Snapshot taken =
        script.worked(() -> script.allocator.snapshot(new SnapshotOptions().pool(pool).withoutHistory()));
    if (taken == null) {
      return;
    }
    try (Snapshot snapshot = taken) {
      for (Segment segment : snapshot.segments()) {
        script.add("# seg " + Long.toHexString(segment.address()) + " " + segment.totalSize() + " "
            + Long.toHexString(segment.stream()) + (segment.isLarge() ? " large" : " small")
            + (segment.isExpandable() ? " expandable" : "") + " pool " + segment.pool().first() + ","
            + segment.pool().second() + " requested " + segment.requestedSize() + " allocated "
            + segment.allocatedSize() + " active " + segment.activeSize()
            + (script.log.contains("counter") ? " counter " + segment.number() : "")
            + contextMark(segment.context()));
        for (SegmentBlock block : segment.blocks()) {
          String state = block.state() == BlockState.ALLOCATED ? "allocated"
              : block.state() == BlockState.PENDING_FREE ? "pending" : "free";
          script.add("# blk " + block.size() + " " + block.requestedSize() + " " + state
              + contextMark(block.context()));
        }
      }
    }
  }

  void history() {
    List<TraceEntry> entries = script.worked(() -> script.allocator.history(0));
    for (TraceEntry entry : entries == null ? List.<TraceEntry>of() : entries) {
      script.add("# trace " + Script.text(entry) + contextMark(entry.context()) + script.metadataMarks(entry));
    }
  }

  void settings() {
    Snapshot taken = script.worked(() -> script.allocator.snapshot());
    if (taken == null) {
      return;
    }
    try (Snapshot snapshot = taken) {
      Settings settings = snapshot.settings();
      StringBuilder rounding = new StringBuilder();
      settings.roundupPower2Divisions().forEach(divisions -> rounding.append(' ').append(divisions));
      script.add("# set string \"" + snapshot.options() + "\" max_split " + settings.maxSplitSize() + " gc "
          + allDigits(settings.garbageCollectionThreshold()) + " expandable " + bit(settings.expandableSegments())
          + " threads " + settings.pinnedNumRegisterThreads() + " release_lock "
          + bit(settings.releaseLockOnCudamalloc()) + " host_register " + bit(settings.pinnedUseCudaHostRegister())
          + " reuse " + bit(settings.graphCaptureRecordStreamReuse()) + " round" + rounding + " # large_segment "
          + settings.largeSegmentSize() + " non_split_rounding " + settings.maxNonSplitRoundingSize()
          + " background " + bit(settings.pinnedUseBackgroundThreads()) + " fraction "
          + allDigits(settings.perProcessMemoryFraction()) + " reserve_segment "
          + settings.pinnedReserveSegmentSizeMb());
      if (script.release != Release.V2_15) {
        return;
      }
      script.answer("throw_on_cudamalloc_oom " + bit(settings.throwOnCudamallocOom()) + " pinned_free_catch_all "
          + bit(settings.pinnedFreeCatchAll()));
      script.answer("max_round_threshold " + Long.toUnsignedString(settings.pinnedMaxRoundThreshold())
          + " max_cached_size " + Long.toUnsignedString(settings.pinnedMaxCachedSize()));
    }
  }

  private static int bit(boolean flag) {
    return flag ? 1 : 0;
  }

  /** As C prints "%.17g": 17 digits that count, without zeros at the end. */
  static String allDigits(double value) {
    if (value == 0) {
      return "0";
    }
    BigDecimal rounded = new BigDecimal(value).round(new MathContext(17));
    int exponent = rounded.precision() - rounded.scale() - 1;
    if (exponent >= -4 && exponent < 17) {
      return rounded.stripTrailingZeros().toPlainString();
    }
    String digits = rounded.scaleByPowerOfTen(-exponent).stripTrailingZeros().toPlainString();
    return digits + "e" + (exponent < 0 ? "-" : "+") + (Math.abs(exponent) < 10 ? "0" : "") + Math.abs(exponent);
  }
}
