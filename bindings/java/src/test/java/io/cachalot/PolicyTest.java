// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The serving policy, pins and the end of streams. */
final class PolicyTest {
  private static final long MIB = 1 << 20;
  private static final long FIRST = 0x10;
  private static final long SECOND = 0x20;

  private Sim sim;
  private final List<Allocator> opened = new ArrayList<>();

  @BeforeEach
  void open() {
    sim = Sim.create(1 << 30);
  }

  @AfterEach
  void close() {
    opened.forEach(Allocator::closeAll);
    sim.close();
  }

  private Allocator with(Policy policy) {
    Allocator allocator = Allocator.builder().driver(sim).options("").policy(policy).build();
    opened.add(allocator);
    return allocator;
  }

  private Allocator serving() {
    return with(Policy.serving().build());
  }

  private static void assertTold(String message, Class<? extends RuntimeException> type, Runnable call) {
    assertEquals(message, assertThrows(type, call::run).getMessage());
  }

  @Test
  void aPolicyIsReadAndWrittenAsText() {
    Map.of("pytorch", Policy.PYTORCH,
        "pytorch,page=2MiB", Policy.pytorch(2 * MIB),
        "serving", Policy.serving().build(),
        "serving,streams=announced", Policy.serving().announcedStreams(true).build(),
        "serving,thrift,page=8MiB,borrow=at_limit,streams=announced",
        Policy.serving().thrift(true).pageBytes(8 * MIB).borrow(Borrow.AT_LIMIT).announcedStreams(true).build(),
        "serving,thrift,page=8MiB,borrow=at_limit",
        Policy.serving().thrift(true).pageBytes(8 * MIB).borrow(Borrow.AT_LIMIT).build(),
        "serving,page=64KiB", Policy.serving().pageBytes(1 << 16).build(),
        "serving,page=1GiB,borrow=never", Policy.serving().pageBytes(1 << 30).borrow(Borrow.NEVER).build()
    ).forEach((text, policy) -> {
      assertEquals(policy, Policy.parse(text));
      assertEquals(policy.hashCode(), Policy.parse(text).hashCode());
      assertEquals(text, policy.toString());
    });
    assertNotEquals(Policy.PYTORCH, Policy.serving().build());
    assertNotEquals(Policy.serving().build(), Policy.serving().announcedStreams(true).build());
    String message = assertThrows(IllegalArgumentException.class, () -> Policy.parse("serving,thrifty")).getMessage();
    assertTrue(message.startsWith("policy \"serving,thrifty\": expected pytorch[,page=SIZE], or serving with any of"),
        message);
    assertThrows(IllegalArgumentException.class, () -> Policy.parse("serving\0"));
    assertThrows(IllegalArgumentException.class, () -> Allocator.builder().policy("servin"));
    assertTold("bytes is negative: -1", IllegalArgumentException.class, () -> Policy.serving().pageBytes(-1));
  }

  @Test
  void thePolicyInForceIsTheOneThatWasAskedFor() {
    assertEquals(Policy.PYTORCH, with(Policy.PYTORCH).policy());
    Policy found = serving().policy();
    assertEquals(Policy.Kind.SERVING, found.kind());
    assertEquals(OptionalLong.of(2 * MIB), found.pageBytes());
    assertEquals(Borrow.FIRST, found.borrow());
    assertFalse(found.announcedStreams());
    Policy asked =
        Policy.serving().thrift(true).borrow(Borrow.NEVER).announcedStreams(true).pageBytes(4 * MIB).build();
    assertEquals(asked, with(asked).policy());
    assertTrue(asked.thrift());
    assertTrue(asked.announcedStreams());
    try (Allocator allocator = Allocator.builder().driver(sim).policy("serving,thrift,page=8MiB").build()) {
      assertEquals("serving,thrift,page=8MiB", allocator.policy().toString());
    }
  }

  @Test
  void aPageThatCannotBeIsRefused() {
    assertTold("a page of 3145728 bytes: a page is a power of two, at most 1 GiB", IllegalArgumentException.class,
        () -> with(Policy.serving().pageBytes(3 * MIB).build()));
  }

  @Test
  void pytorchsDecisionsMayHavePagesOfAnotherSize() {
    Policy pages = Policy.pytorch(2 * MIB);
    try (Allocator allocator =
        Allocator.builder().driver(sim).options("expandable_segments:True").policy(pages).build()) {
      assertEquals(pages, allocator.policy());
      allocator.allocate(5 * MIB).close();
      assertEquals(6 * MIB, allocator.memoryReserved(0));
    }
  }

  @Test
  void aBlockOfAnotherStreamIsBorrowedAndWaitedFor() {
    Allocator allocator = serving();
    Block block = allocator.allocate(4 * MIB, 0, FIRST);
    long address = block.address();
    block.close();
    Block borrowed = allocator.allocate(4 * MIB, 0, SECOND);
    assertEquals(address, borrowed.address());
    assertEquals(new PolicyStats(2, 0, 0, 1, 1, 0, 0), allocator.policyStats(0));
    borrowed.close();
    allocator.emptyCache();
    assertEquals(2, allocator.policyStats(0).pagesReleased());
    assertThrows(IllegalArgumentException.class, () -> allocator.policyStats(9));
  }

  @Test
  void aBorrowerWaitsForTheLenderAloneWhereEndsOfStreamsAreAnnounced() {
    for (boolean announced : new boolean[] {false, true}) {
      Allocator allocator = with(Policy.serving().announcedStreams(announced).build());
      allocator.allocate(4 * MIB, 0, FIRST).close();
      sim.logCalls(Set.of(SimLog.CALLS));
      allocator.allocate(4 * MIB, 0, SECOND).close();
      String calls = sim.readCalls();
      assertTrue(calls.contains(announced ? "event_record 10\n" : "event_record_all\n"), calls);
      assertEquals(1, allocator.policyStats(0).streamWaits());
    }
  }

  @Test
  void nothingWaitsForAStreamThatHasEnded() {
    Allocator allocator = serving();
    allocator.allocate(4 * MIB, 0, FIRST).close();
    allocator.streamEnded(0, FIRST);
    allocator.allocate(4 * MIB, 0, SECOND).close();
    assertEquals(new PolicyStats(2, 0, 0, 1, 0, 0, 0), allocator.policyStats(0));
    assertThrows(IllegalArgumentException.class, () -> allocator.streamEnded(9, FIRST));
    try (CaptureScope capture = allocator.capture(0)) {
      assertTold("the end of a stream cannot be told while a capture may be under way", IllegalStateException.class,
          () -> allocator.streamEnded(0, SECOND));
    }
    allocator.streamEnded(0, SECOND);
  }

  @Test
  void pinnedPagesOutliveTheirBlockAndAnEmptiedCache() {
    Allocator allocator = serving();
    Block block = allocator.allocate(8 * MIB, 0, FIRST);
    long address = block.address();
    Pin whole = block.pin();
    Pin part = block.pin(3 * MIB, MIB);
    assertEquals(8 * MIB, whole.size());
    assertEquals(address + 3 * MIB, part.address());
    block.close();
    allocator.emptyCache();
    assertEquals(8 * MIB, allocator.memoryReserved(0));
    whole.close();
    whole.close();
    allocator.emptyCache();
    assertEquals(2 * MIB, allocator.memoryReserved(0));
    assertEquals(2 * MIB, allocator.policyStats(0).pinnedBytes());
    part.close();
    allocator.emptyCache();
    assertEquals(0, allocator.memoryReserved(0));
    assertTold("the block is closed", IllegalStateException.class, block::pin);
    assertTrue(whole.toString().endsWith("closed)"));
  }

  @Test
  void aPinnedSegmentStaysWithPytorchsDecisionsToo() {
    Allocator allocator = with(Policy.PYTORCH);
    Block block = allocator.allocate(12 * MIB, 0, 0);
    try (Pin pin = block.pin()) {
      block.close();
      allocator.emptyCache();
      assertEquals(12 * MIB, allocator.memoryReserved(0));
      assertEquals(new PolicyStats(0, 0, 0, 0, 0, 0, 12 * MIB), allocator.policyStats(0));
    }
    allocator.emptyCache();
    assertEquals(0, allocator.memoryReserved(0));
  }

  @Test
  void aPinEndsWithItsAllocator() {
    Allocator allocator = Allocator.builder().driver(sim).options("").build();
    Block block = allocator.allocate(12 * MIB, 0, 0);
    Pin pin = block.pin();
    block.close();
    allocator.close();
    pin.close();
    pin.close();
  }

  @Test
  void aPinThatNobodyClosedEndsWithTheCollector() throws InterruptedException {
    Allocator allocator = with(Policy.PYTORCH);
    Block block = allocator.allocate(12 * MIB, 0, 0);
    assertEquals(12 * MIB, block.pin().size());
    for (int i = 0; i < 500 && allocator.policyStats(0).pinnedBytes() != 0; i++) {
      System.gc();
      Thread.sleep(10);
    }
    assertEquals(0, allocator.policyStats(0).pinnedBytes());
  }

  @Test
  void aPinIsNotEndedUnderALock() {
    Allocator allocator = with(Policy.PYTORCH);
    Block block = allocator.allocate(12 * MIB, 0, 0);
    Pin pin = block.pin();
    List<RuntimeException> refused = new ArrayList<>();
    try (Observer observer = allocator.observeTrace(entry -> {
      try {
        pin.close();
      } catch (IllegalStateException expected) {
        refused.add(expected);
      }
    })) {
      block.close();
    }
    assertNotEquals(List.of(), refused);
    assertEquals(12 * MIB, allocator.policyStats(0).pinnedBytes());
    pin.close();
    assertEquals(0, allocator.policyStats(0).pinnedBytes());
  }

  @Test
  void whatIsNoPartOfALiveBlockCannotBePinned() {
    Allocator allocator = serving();
    Block block = allocator.allocate(4 * MIB, 0, FIRST);
    long address = block.address();
    assertTold("0 bytes cannot be pinned", IllegalArgumentException.class, () -> block.pin(0, 0));
    assertTold("size is negative: -1", IllegalArgumentException.class, () -> allocator.pin(address, -1));
    assertTold(String.format("%d bytes at %#x do not lie in one live block of the cache", 5 * MIB, address),
        IllegalArgumentException.class, () -> allocator.pin(address, 5 * MIB));
    for (long offset : new long[] {-1, MIB, Long.MAX_VALUE}) {
      assertThrows(IllegalArgumentException.class, () -> block.pin(offset, 4 * MIB));
    }
    block.close();
    assertThrows(IllegalArgumentException.class, () -> allocator.pin(address, 1));
    assertThrows(IllegalArgumentException.class, () -> allocator.allocate(0, 0, FIRST).pin());
    try (Allocator driver = Allocator.builder().driver(sim).options("backend:cudaMallocAsync").build();
        Block kept = driver.allocate(MIB, 0, 0)) {
      assertThrows(UnsupportedOperationException.class, kept::pin);
    }
  }

  @Test
  void aPinnedPoolKeepsItsMemoryOnceItWasReleased() {
    Allocator allocator = serving();
    Pool pool = allocator.createPool(0, new PoolOptions().flags(PoolFlag.PINNED, PoolFlag.NO_SPLIT));
    PoolKey key = pool.key();
    try (PoolScope scope = pool.route(Route.all())) {
      allocator.allocate(4 * MIB, 0, FIRST).close();
    }
    pool.close();
    allocator.emptyCache();
    assertEquals(4 * MIB, allocator.memoryReserved(0));
    key.setPinned(false);
    allocator.emptyCache();
    assertEquals(0, allocator.memoryReserved(0));
    assertThrows(IllegalStateException.class, () -> key.setPinned(true));
  }

  @Test
  void aWholeBlockIsAnAllocationOfTheDriver() {
    Allocator allocator = with(Policy.PYTORCH);
    Pool pool = allocator.createPool(0, new PoolOptions().flags(PoolFlag.WHOLE_BLOCKS));
    pool.key().setWholeBlocks();
    try (PoolScope scope = pool.route(Route.all())) {
      for (int i = 0; i < 2; i++) {
        Block block = allocator.allocate(5000);
        assertEquals(new BaseAllocation(block.address(), 5120), allocator.baseAllocation(block.address()));
      }
    }
    Pool usual = allocator.createPool(0, new PoolOptions());
    try (PoolScope scope = usual.route(Route.all())) {
      allocator.allocate(MIB).close();
    }
    assertThrows(IllegalStateException.class, () -> usual.key().setWholeBlocks());
  }

  private static long reserved(Trace trace, ReplayOptions options) {
    try (Replay replay = trace.replay(options.capacity(1 << 30))) {
      return replay.result().peakReserved();
    }
  }

  @Test
  void aReplayMakesTheDecisionsOfItsPolicy() throws IOException {
    Allocator allocator = with(Policy.PYTORCH);
    allocator.recordHistory(HistoryOptions.recording(10));
    allocator.allocate(5 * MIB).close();
    ByteArrayOutputStream file = new ByteArrayOutputStream();
    try (Snapshot snapshot = allocator.snapshot()) {
      Trace.write(snapshot, null, "one block", file);
    }
    Policy policy = Policy.serving().pageBytes(8 * MIB).build();
    try (Trace trace = Trace.read(new ByteArrayInputStream(file.toByteArray()))) {
      assertEquals(20 * MIB, reserved(trace, new ReplayOptions()));
      assertEquals(20 * MIB, reserved(trace, new ReplayOptions().policy(Policy.PYTORCH)));
      assertEquals(6 * MIB, reserved(trace, new ReplayOptions().policy("serving")));
      assertEquals(8 * MIB, reserved(trace, new ReplayOptions().policy(policy)));
      assertThrows(IllegalArgumentException.class,
          () -> trace.replay(new ReplayOptions().policy(policy).expect(true)));
    }
  }
}
