// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What the library calls, and what that may do. */
final class CallbackTest {
  private static final long MIB = 1 << 20;
  private final List<Throwable> uncaught = new ArrayList<>();
  private Sim sim;
  private Allocator allocator;

  @BeforeEach
  void open() {
    sim = Sim.create(100 * MIB);
    allocator = Allocator.builder().driver(sim).options("").trackLabels(true).build();
    Thread.currentThread().setUncaughtExceptionHandler((thread, thrown) -> uncaught.add(thrown));
  }

  @AfterEach
  void close() {
    Thread.currentThread().setUncaughtExceptionHandler(null);
    allocator.closeAll();
    sim.close();
  }

  @Test
  void whatAnObserverThrowsStaysOutside() {
    allocator.observeTrace(entry -> {
      throw new IllegalStateException("trace");
    });
    allocator.observeOutOfMemory(numbers -> {
      throw new AssertionError("oom");
    });
    allocator.onFreeMemory((device, size) -> {
      throw new IllegalArgumentException("free");
    });
    allocator.allocate(MIB).close();
    assertThrows(OutOfDeviceMemoryException.class, () -> allocator.allocate(200 * MIB));
    List<String> messages = uncaught.stream().map(Throwable::getMessage).distinct().sorted().toList();
    assertEquals(List.of("free", "oom", "trace"), messages);
    allocator.check();
  }

  @Test
  void callsUnderALockAreRefused() {
    List<String> refused = new ArrayList<>();
    Block other = allocator.allocate(1);
    try (Observer observer = allocator.observeTrace(entry -> {
      refused.add(assertThrows(IllegalStateException.class, () -> allocator.allocate(1)).getMessage());
      refused.add(assertThrows(IllegalStateException.class, other::close).getMessage());
      refused.add(assertThrows(IllegalStateException.class, () -> allocator.stats(0)).getMessage());
    })) {
      allocator.allocate(5 * MIB).close();
    }
    assertEquals(List.of(), uncaught);
    assertEquals(1, refused.stream().distinct().count());
    assertTrue(refused.get(0).contains("under a lock"), refused.get(0));
    assertEquals(512, other.info().size());
    int before = refused.size();
    allocator.allocate(5 * MIB).close();
    assertEquals(before, refused.size(), "it is detached");
  }

  @Test
  void anAllocatorIsNotClosedFromWithinItsCall() {
    List<String> refused = new ArrayList<>();
    allocator.onFreeMemory((device, size) -> {
      refused.add(assertThrows(IllegalStateException.class, allocator::closeAll).getMessage());
      return false;
    });
    allocator.allocate(MIB).close();
    assertTrue(refused.get(0).contains("from within"), refused.get(0));
  }

  @Test
  void outOfMemoryHasItsNumbers() {
    List<OutOfMemory> seen = new ArrayList<>();
    List<String> reports = new ArrayList<>();
    allocator.observeOutOfMemory(numbers -> {
      seen.add(numbers);
      try (Report report = allocator.report(
          new ReportOptions(numbers.device()).request(numbers.requested(), numbers.stream()))) {
        assertEquals(Outcome.FAILS, report.numbers().outcome());
        reports.add(report.text());
      }
    });
    allocator.setMemoryLimit(0, OptionalLong.of(50 * MIB));
    OutOfDeviceMemoryException failure =
        assertThrows(OutOfDeviceMemoryException.class, () -> allocator.allocate(60 * MIB, 0, 5));
    assertEquals(60 * MIB, failure.numbers().requested());
    assertEquals(50 * MIB, failure.numbers().limit());
    assertEquals(100 * MIB, failure.numbers().deviceTotal());
    assertEquals(5, failure.numbers().stream());
    assertTrue(failure.getMessage().startsWith("CUDA out of memory. Tried to allocate 60.00 MiB."));
    assertEquals(List.of(failure.numbers()), seen);
    assertTrue(reports.get(0).contains("it fails"), reports.get(0));
    assertEquals(List.of(), uncaught);
  }

  @Test
  void freeMemoryCallbackMakesRoom() {
    List<Block> cache = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      cache.add(allocator.allocate(20 * MIB));
    }
    allocator.onFreeMemory((device, size) -> {
      cache.forEach(Block::close);
      return !cache.isEmpty();
    });
    allocator.allocate(90 * MIB).close();
    assertEquals(List.of(), uncaught);
  }

  @Test
  void optionsThatAreUsedAgainKeepTheirCallbacksApart() {
    try (Sim sim = Sim.create(100 * MIB); Allocator allocator = Allocator.builder().driver(sim).options("").build()) {
      List<String> asked = new ArrayList<>();
      TenantOptions options = new TenantOptions("tenant").priority(-1).onPressure(pressure -> {
        asked.add("one");
        return 0;
      });
      Tenant one = allocator.createTenant(options);
      Tenant two = allocator.createTenant(options.onPressure(pressure -> {
        asked.add("two");
        return 0;
      }));
      try (Block block = one.allocate(80 * MIB, 0, 0)) {
        assertThrows(OutOfDeviceMemoryException.class, () -> allocator.allocate(60 * MIB));
        two.close();
        assertThrows(OutOfDeviceMemoryException.class, () -> allocator.allocate(60 * MIB));
      }
      assertEquals(List.of("one"), asked.stream().distinct().toList());
      one.close();
    }
  }

  @Test
  void tenantsGiveToEachOther() {
    List<Block> held = new ArrayList<>();
    List<Pressure> asked = new ArrayList<>();
    Tenant giver = allocator.createTenant(new TenantOptions("giver").priority(-1).onPressure(pressure -> {
      asked.add(pressure);
      long bytes = held.stream().mapToLong(block -> block.info().size()).sum();
      held.forEach(Block::close);
      held.clear();
      return bytes;
    }));
    Tenant taker = allocator.createTenant(new TenantOptions("taker").guaranteedBytes(60 * MIB));
    for (int i = 0; i < 4; i++) {
      held.add(giver.allocate(10 * MIB, 0, 0));
    }
    assertEquals(40 * MIB, giver.stats(0).allocatedBytes().current());
    try (TenantScope scope = taker.enter(); Block block = allocator.allocate(80 * MIB)) {
      assertEquals(80 * MIB, taker.stats(0).allocatedBytes().current());
    }
    assertEquals("taker", asked.get(0).requesterName());
    assertEquals(0, giver.stats(0).allocation().current());
    giver.setBytes(OptionalInt.empty(), 0, 8 * MIB);
    giver.setPriority(3);
    assertEquals(OptionalLong.of(8 * MIB), giver.stats(0).limitBytes());
    assertThrows(OutOfDeviceMemoryException.class, () -> giver.allocate(9 * MIB, 0, 0));
    assertEquals(List.of("default", "giver", "taker"),
        allocator.tenantStats(0).stream().map(TenantStats::name).toList());
    assertThrows(IllegalArgumentException.class,
        () -> allocator.createTenant(new TenantOptions("x").guaranteedBytes(2).limitBytes(1)));
    giver.close();
    taker.close();
    assertEquals(List.of(), uncaught);
  }

  @Test
  void aSourceOfWhatNoMemoryCanBeIsRefused() {
    long[] impossible = {-1, -512, -2 * MIB, Long.MIN_VALUE, Long.MAX_VALUE - 511, 0x5000000100L};
    for (long address : impossible) {
      assertRefused(address);
    }
    assertThrows(IllegalArgumentException.class, () -> sim.giveAddresses(0, -MIB));
    assertEquals(List.of(), uncaught);
  }

  private void assertRefused(long address) {
    AtomicLong givenBack = new AtomicLong();
    PoolSource source = new PoolSource() {
      @Override
      public long allocate(long size, int device, long stream) {
        return address;
      }

      @Override
      public void free(long back, long size, int device, long stream) {
        givenBack.set(back);
      }
    };
    try (Pool pool = allocator.createPool(0, new PoolOptions().source(source));
        PoolScope scope = pool.route(Route.all())) {
      String message =
          assertThrows(IllegalStateException.class, () -> allocator.allocate(1, 0, 0)).getMessage();
      String text = "the pool's source gave 2097152 bytes at 0x" + Long.toHexString(address) + ": ";
      assertTrue(message.contains(text), message);
      assertEquals(address, givenBack.get());
      allocator.check();
    }
  }

  @Test
  void aPoolHasItsOwnSource() {
    AtomicLong given = new AtomicLong();
    PoolSource source = new PoolSource() {
      @Override
      public long allocate(long size, int device, long stream) {
        given.addAndGet(size);
        return 0x5000000000L;
      }

      @Override
      public void free(long address, long size, int device, long stream) {
        given.addAndGet(-size);
      }
    };
    try (Pool pool = allocator.createPool(0, new PoolOptions().source(source))) {
      try (PoolScope scope = pool.route(Route.predicate(stream -> stream == 3));
          Block block = allocator.allocate(1, 0, 3)) {
        assertEquals(0x5000000000L, block.address());
        assertEquals(pool.id(), block.info().pool());
        assertTrue(pool.key().hasLive(block.address()));
        assertThrows(IllegalStateException.class, () -> pool.route(Route.all()));
        assertEquals(2, pool.key().useCount());
      }
      assertEquals(2 * MIB, given.get());
      try (Pool another = allocator.joinPool(0, pool.id(), new PoolOptions())) {
        assertThrows(IllegalStateException.class,
            () -> allocator.joinPool(0, pool.id(), new PoolOptions().source(source)));
        assertEquals(2, another.key().useCount(), "what is refused takes no use of others");
      }
      assertEquals(1, pool.key().useCount());
      assertEquals(2 * MIB, allocator.poolStats(0).get(0).reservedBytes().all().current());
    }
    allocator.emptyCache();
    assertEquals(0, given.get());
    assertEquals(List.of(), uncaught);
  }

  @Test
  void aTraceOfAProgramTellsOfItsCalls() throws IOException {
    String file = "# {\"format\": 2, \"command\": \"./server\", \"pid\": 4711, \"driver\": 13000}\n"
        + "a,200,512,a0,0,,5,ff,34000,s,12\nq,200,512,a0,0,,6,,,t,,b0,7,c0de\nx,0,0,0\n";
    try (Trace trace = Trace.read(new ByteArrayInputStream(file.getBytes()))) {
      TraceInfo info = trace.info();
      assertEquals(2, info.format());
      assertEquals("./server", info.command());
      assertEquals(4711, info.processId());
      assertEquals(13000, info.driverVersion());
      assertEquals(34000, trace.event(0).costNanos());
      assertEquals(12, trace.event(0).thread());
      assertEquals('s', trace.event(0).entry());
      assertEquals(0xb0, trace.event(1).freedOn());
      assertEquals(7, trace.event(1).waitNanos());
      assertEquals(0xc0de, trace.event(1).driverContext());
      assertEquals(Action.CONTEXT_END, trace.event(2).action());
    }
  }

  @Test
  void aTraceOfAProgramTellsOfItsStacks() throws IOException {
    String file = "# {\"format\": 2}\n# module 400000 500000 1000 /usr/bin/server\n"
        + "# stack ff 401234;7f001000\na,200,512,0,0,,,ff\n";
    try (Trace trace = Trace.read(new ByteArrayInputStream(file.getBytes()))) {
      assertEquals(
          List.of(new TraceFrame(0x401234, 0x2234, "/usr/bin/server"), new TraceFrame(0x7f001000, 0, "")),
          trace.stack(0xff));
      assertEquals(List.of(), trace.stack(0xfe));
    }
  }

  @Test
  void aSnapshotIsWrittenForMemoryViz() throws IOException {
    allocator.recordHistory(HistoryOptions.recording(100));
    allocator.allocate(MIB).close();
    try (Snapshot snapshot = allocator.snapshot()) {
      for (Allocator explains : new Allocator[] {allocator, null}) {
        ByteArrayOutputStream file = new ByteArrayOutputStream();
        snapshot.writePickle(explains, file);
        String text = file.toString(StandardCharsets.ISO_8859_1);
        assertTrue(text.startsWith("\u0080\u0004}(\u008c\u0008segments"), text);
        assertTrue(text.endsWith("u."), text);
      }
      IOException broken = new IOException("broken");
      assertEquals(broken, assertThrows(IOException.class, () -> snapshot.writePickle(allocator, new OutputStream() {
        @Override
        public void write(int one) throws IOException {
          throw broken;
        }
      })));
    }
  }

  @Test
  void aReplayHasTheRecordedTimes() throws IOException {
    String text = "# {\"format\": 2}\n# label 7 f\na,200,512,a0,0,,123,7\n";
    try (Trace trace = Trace.read(new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)));
        Replay replay = trace.replay(new ReplayOptions().history(true));
        Replay without = trace.replay(new ReplayOptions());
        Snapshot snapshot = replay.snapshot()) {
      TraceEntry entry = snapshot.history(0).get(1);
      assertEquals(123, entry.timeMicros());
      assertEquals(7, entry.context());
      assertThrows(IllegalStateException.class, without::snapshot);
    }
  }

  @Test
  void aReplayCanEndAtTheFirstFailureAndTellsItsDriverCalls() throws IOException {
    StringBuilder text = new StringBuilder("# {\"warm_up\": 0}\n");
    for (int i = 1; i < 5; i++) {
      text.append("a,").append(i).append("00000000,41943040,0\n");
    }
    ReplayOptions options = new ReplayOptions().capacity(100 * MIB).stopAtOutOfMemory(true);
    try (Trace trace = Trace.read(new ByteArrayInputStream(text.toString().getBytes(StandardCharsets.UTF_8)));
        Replay replay = trace.replay(options)) {
      assertEquals(1, replay.result().outOfMemory());
      assertEquals(80 * MIB, replay.result().peakDeviceBytes());
      assertEquals(
          List.of(
              new ReplayCall("cuMemAlloc", 40 * MIB, 1, 0),
              new ReplayCall("cuMemAlloc", 40 * MIB, 2, 8),
              new ReplayCall("cuMemAlloc", 40 * MIB, 1, 65536)),
          replay.calls());
    }
  }

  /** Two requests of 40 MiB and the free of the first. */
  private static Trace twoRequests() throws IOException {
    String text = "# {\"warm_up\": 0}\na,100000000,41943040,0\na,200000000,41943040,0\n"
        + "q,100000000,41943040,0\nc,100000000,41943040,0\n";
    return Trace.read(new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)));
  }

  @Test
  void aReplayTellsWhatEachEventDid() throws IOException {
    List<String> seen = new ArrayList<>();
    ReplayOptions options = new ReplayOptions().observer(
        (index, entry) -> seen.add(index + " " + entry.action() + " " + entry.size() / MIB));
    try (Trace trace = twoRequests()) {
      trace.replay(options).close();
      List<String> ofTheFirst = List.of("0 SEGMENT_ALLOC 40", "0 ALLOC 40");
      assertEquals(ofTheFirst, seen.subList(0, 2));
      assertEquals(
          List.of("1 SEGMENT_ALLOC 40", "1 ALLOC 40", "2 FREE_REQUESTED 40", "2 FREE_COMPLETED 40"),
          seen.subList(2, seen.size()));
      seen.clear();
      try (Replay replay = trace.replay(options.eventCount(1))) {
        assertEquals(ofTheFirst, seen);
        assertEquals(1, replay.result().events());
      }
      assertThrows(IllegalArgumentException.class, () -> trace.replay(options.expect(true)));
    }
  }

  @Test
  void whatAnObserverOfAReplayThrowsEndsIt() throws IOException {
    AssertionError boom = new AssertionError("boom");
    AtomicLong calls = new AtomicLong();
    ReplayOptions options = new ReplayOptions().observer((index, entry) -> {
      calls.incrementAndGet();
      throw boom;
    }).progress((done, total) -> calls.addAndGet(100) > 0);
    try (Trace trace = twoRequests()) {
      assertEquals(boom, assertThrows(AssertionError.class, () -> trace.replay(options)));
      OutputStream script = OutputStream.nullOutputStream();
      assertEquals(boom, assertThrows(AssertionError.class, () -> trace.writeScript(options, script)));
      // The library takes this for a replay that has worked.
      options.capacity(20 * MIB).stopAtOutOfMemory(true);
      assertEquals(boom, assertThrows(AssertionError.class, () -> trace.replay(options)));
    }
    assertEquals(3, calls.get());
    assertEquals(List.of(), uncaught);
  }

  @Test
  void aTraceIsWrittenReadAndReplayed() throws IOException {
    allocator.recordHistory(HistoryOptions.recording(100));
    allocator.allocate(MIB).close();
    ByteArrayOutputStream file = new ByteArrayOutputStream();
    try (Snapshot snapshot = allocator.snapshot()) {
      Trace.write(snapshot, allocator.stats(0), "ein Test: ä", file);
    }
    try (Trace trace = Trace.read(new ByteArrayInputStream(file.toByteArray()))) {
      assertEquals("ein Test: ä", trace.info().workload());
      assertEquals(Action.SEGMENT_ALLOC, trace.event(0).action());
      assertEquals(allocator.stats(0).rows(allocator.release()).size(), trace.stats().size());
      try (Replay replay = trace.replay(new ReplayOptions().progress((done, total) -> true))) {
        assertEquals(1, replay.result().allocations());
        assertEquals(MIB, replay.allocator().maxMemoryAllocated(0));
        Allocator borrowed = replay.allocator();
        borrowed.close();
        assertEquals("sim", borrowed.driverName());
        replay.close();
        assertThrows(IllegalStateException.class, borrowed::backend);
      }
      ByteArrayOutputStream script = new ByteArrayOutputStream();
      trace.writeScript(new ReplayOptions(), script);
      assertTrue(script.toString().contains("\na "), script.toString());
    }
    IOException broken = new IOException("broken");
    assertEquals(broken, assertThrows(IOException.class, () -> Trace.read(new InputStream() {
      @Override
      public int read() throws IOException {
        throw broken;
      }
    })));
    assertThrows(CachalotException.class, () -> Trace.read(new ByteArrayInputStream("nonsense".getBytes())));
  }

  @Test
  void whatAStreamThrowsIsThrownToTheCaller() throws IOException {
    AssertionError boom = new AssertionError("boom");
    assertEquals(boom, assertThrows(AssertionError.class, () -> Trace.read(new InputStream() {
      @Override
      public int read() {
        throw boom;
      }
    })));
    allocator.recordHistory(HistoryOptions.recording(100));
    allocator.allocate(MIB).close();
    ByteArrayOutputStream file = new ByteArrayOutputStream();
    try (Snapshot snapshot = allocator.snapshot()) {
      assertEquals(boom, assertThrows(AssertionError.class, () -> Trace.write(snapshot, null, "", new OutputStream() {
        @Override
        public void write(int one) {
          throw boom;
        }
      })));
      Trace.write(snapshot, null, "", file);
    }
    try (Trace trace = Trace.read(new ByteArrayInputStream(file.toByteArray()))) {
      ReplayOptions options = new ReplayOptions().progress((done, total) -> {
        throw boom;
      });
      assertEquals(boom, assertThrows(AssertionError.class, () -> trace.replay(options)));
    }
    assertEquals(List.of(), uncaught);
  }

  @Test
  void aBuilderThatGoesOnChangesNoAllocator() {
    AllocatorBuilder builder = Allocator.builder().driver(sim).options("").contexts(() -> 1, context -> "first");
    try (Allocator first = builder.build();
        Allocator second = builder.contexts(() -> 2, context -> "second").build()) {
      assertEquals("first", first.contextText(5));
      assertEquals("second", second.contextText(5));
    }
  }

  @Test
  void optionsThatGoOnChangeNoReplay() throws IOException {
    allocator.recordHistory(HistoryOptions.recording(1 << 17));
    for (int i = 0; i < 1 << 15; i++) {
      allocator.allocate(1).close();
    }
    ByteArrayOutputStream file = new ByteArrayOutputStream();
    try (Snapshot snapshot = allocator.snapshot()) {
      Trace.write(snapshot, null, "", file);
    }
    List<String> asked = new ArrayList<>();
    ReplayOptions options = new ReplayOptions();
    // Both are asked twice: after 65536 events, and at the end.
    try (Trace trace = Trace.read(new ByteArrayInputStream(file.toByteArray()));
        Replay first = trace.replay(options.progress((done, total) -> {
          asked.add("first");
          if (asked.size() == 1) {
            trace.replay(options.progress((again, all) -> asked.add("second"))).close();
          }
          return true;
        }))) {
      assertEquals(List.of("first", "second", "second", "first"), asked);
    }
  }

  @Test
  void aRouteThatSomebodyElseHasEndedKeepsNoPool() {
    try (Pool pool = allocator.createPool(0, new PoolOptions())) {
      PoolScope scope = pool.route(Route.all());
      assertEquals(2, pool.key().useCount());
      pool.key().end();
      assertThrows(IllegalStateException.class, scope::close);
      assertEquals(1, pool.key().useCount());
      scope.close();
      assertEquals(1, pool.key().useCount());
    }
  }

  @Test
  void whatIsRefusedUnderALockCanBeClosedLater() {
    Pool pool = allocator.createPool(0, new PoolOptions());
    PoolScope scope = pool.route(Route.stream(9));
    CaptureScope capture = allocator.capture(0);
    EmptyCacheScope emptied = allocator.emptyCacheOnClose();
    List<AutoCloseable> all = List.of(scope, capture, emptied, pool);
    try (Observer observer = allocator.observeTrace(entry ->
        all.forEach(each -> assertThrows(IllegalStateException.class, each::close)))) {
      allocator.allocate(MIB).close();
    }
    assertEquals(List.of(), uncaught);
    scope.close();
    assertEquals(1, pool.key().useCount());
    capture.close();
    assertThrows(IllegalStateException.class, () -> allocator.captureEnd(0));
    emptied.close();
    assertEquals(0, allocator.memoryReserved(0));
    PoolKey key = pool.key();
    pool.close();
    assertEquals(0, key.useCount());
  }

  @Test
  void anEmptyingThatTheDriverRefusedCanBeTriedAgain() {
    allocator.allocate(MIB).close();
    EmptyCacheScope emptied = allocator.emptyCacheOnClose();
    sim.fail(EnumSet.of(SimCall.FREE), 719, 0, 1);
    assertThrows(DriverException.class, emptied::close);
    allocator.allocate(MIB).close();
    emptied.close();
    assertEquals(0, allocator.memoryReserved(0));
  }

  @Test
  void theNumbersSurviveSerialization() throws Exception {
    OutOfDeviceMemoryException failure =
        assertThrows(OutOfDeviceMemoryException.class, () -> allocator.allocate(200 * MIB));
    ByteArrayOutputStream file = new ByteArrayOutputStream();
    new ObjectOutputStream(file).writeObject(failure);
    OutOfDeviceMemoryException read = (OutOfDeviceMemoryException)
        new ObjectInputStream(new ByteArrayInputStream(file.toByteArray())).readObject();
    assertEquals(200 * MIB, read.numbers().requested());
    assertEquals(failure.numbers(), read.numbers());
  }
}
