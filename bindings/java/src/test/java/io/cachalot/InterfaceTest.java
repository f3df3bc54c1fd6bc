// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

/** One call of each thing that no other test has a use for. */
final class InterfaceTest {
  private static final long MIB = 1 << 20;

  private static Allocator over(Driver driver, String options) {
    return Allocator.builder().driver(driver).options(options).trackLabels(true).build();
  }

  @Test
  void theLibraryIsTheOneThatTheJarCarries() {
    assertEquals("the jar", Cachalot.libraryPlace());
    assertTrue(Cachalot.version().matches("\\d+\\.\\d+\\.\\d+"));
    assertTrue(Cachalot.versionNumber() >= 100);
    assertEquals("OK", Status.all().get(0).name());
    assertEquals("OUT_OF_MEMORY", Status.nameOf(10));
    assertEquals("UNKNOWN", Status.nameOf(-7));
  }

  @Test
  void optionsAreWrittenAndRead() {
    Options options = Options.builder().expandableSegments(true).maxSplitSizeMb(128)
        .roundupPower2Divisions(Map.of(256L, 1L), 8).build();
    String text = "expandable_segments:True,max_split_size_mb:128,roundup_power2_divisions:[256:1,>:8]";
    assertEquals(text, options.toString());
    assertEquals(options, Options.parse(text));
    assertEquals("", Options.parse(" ").toString());
    assertThrows(IllegalArgumentException.class, () -> Options.parse("nonsense"));
    try (Sim sim = Sim.create(0); Allocator allocator = Allocator.builder().driver(sim).options(options).build()) {
      assertEquals(text, allocator.options());
      Settings settings = allocator.settings();
      assertTrue(settings.expandableSegments());
      assertEquals(128 * MIB, settings.maxSplitSize());
      allocator.setSettings(settings.toBuilder().maxSplitSize(64 * MIB).expandableSegments(false).build());
      assertEquals(64 * MIB, allocator.settings().maxSplitSize());
      assertFalse(allocator.settings().expandableSegments());
      assertThrows(IllegalArgumentException.class, () -> allocator.setSettings(
          allocator.settings().toBuilder().garbageCollectionThreshold(7).build()));
      allocator.configure(Options.builder().garbageCollectionThreshold(0.8).build());
      assertEquals(0.8, allocator.settings().garbageCollectionThreshold());
      assertEquals("Unrecognized key 'nonsense' in Accelerator allocator config.", assertThrows(
          IllegalArgumentException.class, () -> allocator.configure("nonsense:1")).getMessage().split("\n")[0]);
    }
  }

  @Test
  void limitsAndDevices() {
    try (Sim sim = Sim.create(1 << 30, 2); Allocator allocator = over(sim, "")) {
      assertEquals(2, sim.deviceCount());
      assertEquals(2, allocator.deviceCount());
      assertEquals("sim", allocator.driverName());
      assertEquals(Release.V2_15, allocator.release());
      assertEquals("native", allocator.backend());
      allocator.setMemoryFraction(0, 0.5);
      assertEquals(0.5, allocator.memoryFraction(0));
      assertEquals(OptionalLong.of(512 * MIB), allocator.memoryLimit(0));
      allocator.setMemoryLimit(0, OptionalLong.empty());
      assertEquals(OptionalLong.empty(), allocator.memoryLimit(0));
      assertThrows(IllegalArgumentException.class, () -> allocator.stats(2));
      allocator.enablePeerAccess(0, 1);
      try (Block block = allocator.allocate(MIB, 1, 0)) {
        assertEquals(1, block.info().device());
        assertEquals(new BaseAllocation(block.address(), 2 * MIB), allocator.baseAllocation(block.address()));
      }
      DeviceTotals totals = allocator.deviceTotals(1);
      assertEquals(1 << 30, totals.total());
      assertEquals(2 * MIB, totals.reserved());
      assertEquals(2 * MIB, allocator.largestBlock(1, 1));
      allocator.setCachingEnabled(false);
      assertFalse(allocator.isCachingEnabled());
    }
  }

  @Test
  void blocksWithoutOwners() {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim, "")) {
      long address = allocator.allocateUnowned(MIB, 0, 7);
      assertEquals(7, allocator.blockAt(address).stream());
      Block block = allocator.adopt(address);
      assertEquals(address, block.leak());
      allocator.recordStream(address, 8);
      allocator.free(address, 7);
      assertThrows(IllegalArgumentException.class, () -> allocator.free(address));
      assertThrows(IllegalArgumentException.class, () -> allocator.adopt(address));
      try (Block empty = allocator.allocate(0)) {
        assertEquals(0, empty.address());
      }
      try (EmptyCacheScope scope = allocator.emptyCacheOnClose()) {
        assertEquals(2 * MIB, allocator.memoryReserved(0));
      }
      assertEquals(0, allocator.memoryReserved(0));
      allocator.allocate(20 * MIB).close();
      allocator.releaseContext(0);
      assertEquals(0, allocator.memoryReserved(0));
    }
  }

  @Test
  void idleMemoryGoesBack() {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim, "")) {
      allocator.allocate(20 * MIB).close();
      assertEquals(0, allocator.trimAt(0, 0, Duration.ofSeconds(1), Duration.ofSeconds(1)));
      assertEquals(20 * MIB, allocator.trimAt(0, 0, Duration.ofSeconds(1), Duration.ofSeconds(3)));
      assertEquals(0, allocator.trim(0, 0, Duration.ZERO));
    }
  }

  @Test
  void statisticsAndTexts() {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim, "")) {
      try (Label outer = Label.push("model-a"); Label inner = Label.push("kv-cache");
          Block block = allocator.allocate(3 * MIB)) {
        assertThrows(IllegalStateException.class, outer::close);
        assertEquals("model-a/kv-cache", allocator.labelStats(0).get(0).label());
        Stats stats = allocator.stats(0);
        assertEquals(3 * MIB, stats.allocatedBytes().all().current());
        assertEquals(20 * MIB, stats.reservedBytes().largePool().current());
        assertEquals(stats.numOoms(), stats.rows(Release.V2_15).get("num_ooms"));
        assertEquals(123, stats.rows(Release.V2_15).size());
        assertEquals(122, stats.rows(Release.V2_11).size());
        assertTrue(allocator.memorySummary(0, false).contains("PyTorch CUDA memory summary"));
        assertTrue(allocator.metrics().contains("cachalot_reserved_bytes{"));
        try (Report report = allocator.report(new ReportOptions(0))) {
          assertEquals("model-a/kv-cache", report.holders().get(0).label());
          assertEquals(Reason.USABLE, report.reasons().get(0).reason());
          assertEquals("usable", report.reasons().get(0).reason().text());
          assertEquals("no_request", report.numbers().outcome().text());
          assertTrue(report.json().startsWith("{"));
          assertEquals("", report.advice());
        }
      }
      allocator.resetPeakStats(0);
      allocator.resetAccumulatedStats(0);
      assertEquals(0, allocator.maxMemoryAllocated(0));
      assertEquals(20 * MIB, allocator.maxMemoryReserved(0));
      assertEquals(0, allocator.memoryActive(0) + allocator.maxMemoryActive(0));
    }
  }

  @Test
  void historyAndContexts() {
    try (Sim sim = Sim.create(0); Allocator allocator = Allocator.builder().driver(sim).options("")
        .contexts(() -> 7, context -> "frame " + context).build()) {
      allocator.recordHistory(HistoryOptions.recording(10).context(ContextLevel.ALL).skipActions("snapshot"));
      Cachalot.setMetadata("step 1");
      try (Block block = allocator.allocate(1)) {
        Cachalot.setMetadata(null);
        assertEquals(7, allocator.contextOf(block.address()));
        allocator.annotate(block.address(), "weights");
      }
      assertEquals("frame 7", allocator.contextText(7));
      List<TraceEntry> entries = allocator.history(0);
      assertEquals(List.of(Action.SEGMENT_ALLOC, Action.ALLOC, Action.ANNOTATE, Action.FREE_REQUESTED,
          Action.FREE_COMPLETED), entries.stream().map(TraceEntry::action).toList());
      assertEquals("step 1", entries.get(1).metadata());
      allocator.recordHistory(HistoryOptions.off());
      try (Snapshot snapshot = allocator.snapshot(new SnapshotOptions())) {
        assertEquals(1, snapshot.segmentCount());
        assertEquals(1, snapshot.blockCount());
        assertEquals(BlockState.INACTIVE, snapshot.segments().get(0).blocks().get(0).state());
      }
      assertThrows(IllegalArgumentException.class,
          () -> allocator.recordHistory(HistoryOptions.recording(1).skipActions("nonsense")));
    }
  }

  @Test
  void expandableSegmentsAndReserves() {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim, "expandable_segments:True")) {
      allocator.setReserveClass(5, "kv");
      assertEquals("kv", allocator.reserveClass(5));
      allocator.setDefaultReserve("kv", 0.25);
      assertTrue(allocator.reserve(0, "kv").hasReserve());
      try (Block block = allocator.allocate(30 * MIB, 0, 5)) {
        assertEquals(40 * MIB, allocator.expandableSegments(0).get(0).mappedSize());
        assertEquals(1, allocator.expandableTotals().count());
      }
    }
  }

  @Test
  void aPoolIsPutBackToACheckpoint() {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim, "");
        Pool pool = allocator.createPool(0, new PoolOptions()); PoolScope scope = pool.route(Route.all())) {
      long kept = allocator.allocateUnowned(1000, 0, 0);
      Checkpoint checkpoint = pool.key().checkpoint();
      assertEquals(2, checkpoint.segments().get(0).size());
      long later = allocator.allocateUnowned(5000, 0, 0);
      CheckpointChanges changes = pool.key().apply(checkpoint);
      assertEquals(List.of(kept, later), changes.freed());
      assertEquals(List.of(kept), changes.created());
      assertTrue(pool.key().hasLive(kept));
      CheckpointBlock block = checkpoint.segments().get(0).get(0);
      Checkpoint forged = new Checkpoint(checkpoint.pool(), List.of(List.of(
          new CheckpointBlock(block.address(), 7, block.stream(), true, true))));
      assertThrows(IllegalArgumentException.class, () -> pool.key().apply(forged));
      allocator.free(kept);
    }
  }

  @Test
  void copiesAreQueuedAndWhatCannotBeCopiedIsRefused() {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim, ""); Block block = allocator.allocate(1)) {
      allocator.copy(block.address(), 0, block.address(), 0, 1, 0);
      assertThrows(IllegalArgumentException.class, () -> allocator.copy(0, 0, block.address(), 0, 1, 0));
    }
  }

  @Test
  void driversAndWhatTheySay() {
    assertThrows(IllegalArgumentException.class, () -> Driver.open("nonsense"));
    assertThrows(IllegalArgumentException.class, () -> Driver.adopt(0));
    assertThrows(IllegalArgumentException.class, () -> Driver.open("si\0m"));
    try (Driver driver = Driver.open("sim:1GiB")) {
      assertEquals("sim", driver.name());
    }
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = over(sim, "")) {
      sim.setLatency(EnumSet.of(SimCall.ALLOCATE), Duration.ofNanos(1));
      sim.fail(EnumSet.of(SimCall.ALLOCATE), 719, 0, 1);
      DriverException failure = assertThrows(DriverException.class, () -> allocator.allocate(1));
      assertEquals(719, failure.driverCode());
      assertEquals("DRIVER", Status.nameOf(failure.status()));
    }
  }

  @Test
  void whatIsGivenOutCannotBeChanged() {
    byte[] bytes = {1, 2};
    SharedHandle shared = new SharedHandle(bytes, 3);
    bytes[0] = 7;
    shared.handle()[1] = 7;
    assertEquals(new SharedHandle(new byte[] {1, 2}, 3), shared);
    assertEquals(new SharedHandle(new byte[] {1, 2}, 3).hashCode(), shared.hashCode());
    assertNotEquals(new SharedHandle(bytes, 3), shared);
    assertEquals("SharedHandle[handle=0102, offset=3]", shared.toString());
    List<SegmentBlock> blocks = new ArrayList<>();
    Segment segment = new Segment(0, false, 0, 0, 0, 0, 0, 0, PoolId.DEFAULT, false, 0, 0, blocks);
    blocks.add(new SegmentBlock(0, 0, 0, BlockState.INACTIVE, 0));
    assertEquals(List.of(), segment.blocks());
  }

  @Test
  void whatGetsNoOwnerIsEnded() {
    List<Long> ended = new ArrayList<>();
    assertThrows(OutOfMemoryError.class, () -> Cleaners.own(5, address -> {
      throw new OutOfMemoryError("as expected");
    }, ended::add));
    assertEquals(List.of(5L), ended);
  }

  /** What a program's logging gets. */
  private record Logged(List<String> lines) implements System.Logger {
    @Override
    public String getName() {
      return "io.cachalot";
    }

    @Override
    public boolean isLoggable(Level level) {
      return true;
    }

    @Override
    public void log(Level level, java.util.ResourceBundle bundle, String message, Throwable thrown) {
      lines.add(level + " " + message);
    }

    @Override
    public void log(Level level, java.util.ResourceBundle bundle, String format, Object... parameters) {
      lines.add(level + " " + format);
    }
  }

  @Test
  void aSystemLoggerGetsTheRemarks() {
    List<String> lines = new ArrayList<>();
    String harmful = "max_split_size_mb:64,expandable_segments:True";
    try (Sim sim = Sim.create(1 << 30);
        Allocator allocator = Allocator.builder().driver(sim).options(harmful).log(new Logged(lines)).build()) {
      allocator.allocate(1).close();
    }
    assertEquals(1, lines.size(), lines.toString());
    assertTrue(lines.get(0).startsWith("WARNING ") && lines.get(0).contains("max_split_size"), lines.toString());
    assertEquals(System.Logger.Level.ERROR, LogLevel.DAMAGE.level());
    assertEquals(System.Logger.Level.INFO, LogLevel.DIFFERENCE.level());
  }

  @Test
  void rowsOfStatisticsLoadTheLibrary() throws Exception {
    List<String> arguments = List.of("-cp", System.getProperty("java.class.path"), RowsProbe.class.getName());
    assertEquals("122", Jvm.run(List.of(), Map.of(), arguments).strip());
  }

  /** A program that calls nothing else. */
  static final class RowsProbe {
    public static void main(String[] arguments) {
      Stat none = new Stat(0, 0, 0, 0);
      StatArray all = new StatArray(none, none, none);
      System.out.println(new Stats(all, all, all, all, all, all, all, all, all, none, none, 0, 0, 0, 0, 0, 0, 0)
          .rows(Release.V2_11).size());
    }
  }

  @Test
  void eachSetterChangesOneSetting() {
    String options = "max_split_size_mb:128,roundup_power2_divisions:4";
    try (Sim sim = Sim.create(0); Allocator allocator = Allocator.builder().driver(sim).options(options).build()) {
      allocator.updateOptions("max_split_size_mb:96");
      assertEquals(96 * MIB, allocator.settings().maxSplitSize());
      allocator.updateOptions(Options.builder().garbageCollectionThreshold(0.7).build());
      assertEquals(96 * MIB, allocator.settings().maxSplitSize());
      assertEquals(options, allocator.options());
      allocator.setMaxSplitSize(64 * MIB);
      allocator.setMaxNonSplitRoundingSize(48 * MIB);
      allocator.setLargeSegmentSize(16 * MIB);
      allocator.setGarbageCollectionThreshold(0.5);
      allocator.setPerProcessMemoryFraction(0.25);
      allocator.setRoundupBypassThreshold(200 * MIB);
      allocator.setExpandableSegments(true);
      allocator.setReleaseLockOnCudamalloc(true);
      allocator.setGraphCaptureRecordStreamReuse(true);
      allocator.setThrowOnCudamallocOom(true);
      allocator.setPinnedUseBackgroundThreads(true);
      allocator.setPinnedUseCudaHostRegister(true);
      allocator.setPinnedFreeCatchAll(true);
      allocator.setPinnedNumRegisterThreads(8);
      allocator.setPinnedReserveSegmentSizeMb(512);
      allocator.setPinnedMaxRoundThreshold(64 * MIB);
      allocator.setPinnedMaxCachedSize(128 * MIB);
      assertEquals(64 * MIB, allocator.settings().maxSplitSize());
      assertEquals(48 * MIB, allocator.settings().maxNonSplitRoundingSize());
      assertEquals(16 * MIB, allocator.settings().largeSegmentSize());
      assertEquals(0.5, allocator.settings().garbageCollectionThreshold());
      assertEquals(0.25, allocator.settings().perProcessMemoryFraction());
      assertEquals(200 * MIB, allocator.settings().roundupBypassThreshold());
      assertTrue(allocator.settings().expandableSegments());
      assertTrue(allocator.settings().releaseLockOnCudamalloc());
      assertTrue(allocator.settings().graphCaptureRecordStreamReuse());
      assertTrue(allocator.settings().throwOnCudamallocOom());
      assertTrue(allocator.settings().pinnedUseBackgroundThreads());
      assertTrue(allocator.settings().pinnedUseCudaHostRegister());
      assertTrue(allocator.settings().pinnedFreeCatchAll());
      assertEquals(8, allocator.settings().pinnedNumRegisterThreads());
      assertEquals(512, allocator.settings().pinnedReserveSegmentSizeMb());
      assertEquals(64 * MIB, allocator.settings().pinnedMaxRoundThreshold());
      assertEquals(128 * MIB, allocator.settings().pinnedMaxCachedSize());
      assertEquals(4, allocator.settings().roundupPower2Divisions().get(3));
      allocator.setRoundupPower2Divisions(8);
      assertEquals(8, allocator.settings().roundupPower2Divisions().get(3));
      assertThrows(IllegalArgumentException.class, () -> allocator.setRoundupPower2Divisions(8, 8));
      assertThrows(IllegalArgumentException.class, allocator::setRoundupPower2Divisions);
      assertEquals("CachingAllocator option max_split_size_mb too small, must be >= 16", assertThrows(
          IllegalArgumentException.class, () -> allocator.setMaxSplitSize(1)).getMessage());
      assertThrows(IllegalArgumentException.class, () -> allocator.updateOptions("max_split_size_mb:32,nonsense:1"));
      assertEquals(64 * MIB, allocator.settings().maxSplitSize());
    }
  }
}
