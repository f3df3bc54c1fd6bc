// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Who ends what, and when. */
final class LifeTest {
  private static final long MIB = 1 << 20;

  /** Collects until it is so. */
  static void eventually(String what, BooleanSupplier isSo) throws InterruptedException {
    for (int round = 0; round < 200; round++) {
      if (isSo.getAsBoolean()) {
        return;
      }
      System.gc();
      Thread.sleep(20);
    }
    throw new AssertionError(what + ": not within 4 s");
  }

  @Test
  void whatIsClosedSaysSo() {
    Sim sim = Sim.create(1 << 30);
    Allocator allocator = Allocator.builder().driver(sim).options("").build();
    sim.close();
    sim.close();
    assertEquals("the driver is closed", assertThrows(IllegalStateException.class, sim::name).getMessage());
    Block block = allocator.allocate(MIB);
    IllegalStateException live = assertThrows(IllegalStateException.class, allocator::close);
    assertTrue(live.getMessage().contains("1"), live.getMessage());
    assertEquals(MIB, allocator.memoryAllocated(0), "it is still there");
    block.close();
    block.close();
    assertThrows(IllegalStateException.class, block::address);
    assertThrows(IllegalStateException.class, block::leak);
    allocator.close();
    allocator.close();
    assertThrows(IllegalStateException.class, () -> allocator.allocate(1));
    assertThrows(IllegalStateException.class, allocator::handle);
  }

  @Test
  void aUseByAllStreamsIsWaitedForAlsoByABlockOfNone() {
    try (Sim sim = Sim.create(1 << 30)) {
      Allocator allocator = Allocator.builder().driver(sim).options("").build();
      Block block = allocator.allocate(20 * MIB, 0, Allocator.STREAM_ALL);
      long address = block.address();
      block.recordStream(Allocator.STREAM_ALL);
      sim.queueWork(0, 5);
      sim.queueWork(0, 6);
      block.close();
      sim.finishStream(0, 5);
      Block early = allocator.allocate(20 * MIB, 0, Allocator.STREAM_ALL);
      assertNotEquals(address, early.address(), "stream 6 has not finished");
      sim.finishStream(0, 6);
      assertEquals(address, allocator.allocate(20 * MIB, 0, Allocator.STREAM_ALL).address());
      assertThrows(IllegalArgumentException.class, () -> allocator.streamEnded(0, Allocator.STREAM_ALL));
      allocator.closeAll();
    }
  }

  @Test
  void closeAllEndsBlocksToo() {
    try (Sim sim = Sim.create(1 << 30)) {
      Allocator allocator = Allocator.builder().driver(sim).options("").build();
      Block block = allocator.allocate(MIB);
      Pool pool = allocator.createPool(0, new PoolOptions());
      PoolScope scope = pool.route(Route.all());
      EmptyCacheScope empty = allocator.emptyCacheOnClose();
      CaptureScope capture = allocator.capture(0);
      allocator.closeAll();
      assertThrows(IllegalStateException.class, block::address);
      capture.close();
      scope.close();
      pool.close();
      empty.close();
      block.close();
      assertEquals("Block(0x700000000000, closed)", block.toString());
    }
  }

  /** Allocators, blocks, tenants, pools, snapshots that nobody closes. */
  private static void forget(Sim sim) {
    Allocator allocator = Allocator.builder().driver(sim).options("").build();
    Tenant tenant = allocator.createTenant(new TenantOptions("forgotten").onPressure(pressure -> {
      return allocator.memoryAllocated(0) - allocator.memoryAllocated(0);
    }));
    allocator.observeTrace(entry -> assertFalse(allocator.toString().isEmpty()));
    allocator.createPool(0, new PoolOptions());
    allocator.snapshot();
    allocator.report(new ReportOptions(0));
    for (int i = 0; i < 50; i++) {
      allocator.allocate(MIB);
      tenant.allocate(MIB, 0, 0);
    }
  }

  @Test
  void theCollectorEndsWhatNobodyClosed() throws InterruptedException {
    try (Sim sim = Sim.create(1 << 30)) {
      sim.logCalls(java.util.EnumSet.of(SimLog.CALLS));
      for (int i = 0; i < 5; i++) {
        forget(sim);
      }
      StringBuilder calls = new StringBuilder();
      eventually("all memory is given back", () -> {
        calls.append(sim.readCalls());
        return calls.toString().lines().filter(line -> line.startsWith("malloc")).count()
            == calls.toString().lines().filter(line -> line.startsWith("free")).count();
      });
      assertTrue(calls.toString().contains("malloc"));
    }
  }

  @Test
  void theCollectorFreesBlocksOfAnOpenAllocator() throws InterruptedException {
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = Allocator.builder().driver(sim).options("").build()) {
      IntStream.range(0, 100).forEach(i -> allocator.allocate(MIB));
      eventually("all blocks are freed", () -> allocator.memoryAllocated(0) == 0);
    }
  }

  @Test
  void aClosedBlockHasNoPartInTheNext() throws InterruptedException {
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = Allocator.builder().driver(sim).options("").build()) {
      Block closed = allocator.allocate(MIB);
      closed.close();
      Block next = allocator.allocate(MIB);
      closed.close();
      assertThrows(IllegalStateException.class, closed::address);
      closed = null;
      System.gc();
      Thread.sleep(50);
      assertEquals(MIB, next.info().requested());
      assertEquals(MIB, allocator.memoryAllocated(0));
      assertEquals(next.address(), next.leak());
      Block adopted = allocator.adopt(0x700000000000L);
      assertThrows(IllegalStateException.class, next::leak);
      next.close();
      assertEquals(MIB, allocator.memoryAllocated(0), "the adopted one is there");
      adopted.close();
      assertEquals(0, allocator.memoryAllocated(0));
    }
  }

  private static void forgetAfterClosing(Allocator allocator) {
    for (int i = 0; i < 100; i++) {
      allocator.allocate(MIB).close();
      allocator.allocate(MIB);
    }
  }

  @Test
  void theCollectorFreesBlocksThatFollowClosedOnes() throws InterruptedException {
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = Allocator.builder().driver(sim).options("").build()) {
      forgetAfterClosing(allocator);
      assertTrue(allocator.memoryAllocated(0) > 0);
      eventually("all blocks are freed", () -> allocator.memoryAllocated(0) == 0);
    }
  }

  @Test
  void aBlockKeepsItsAllocator() throws InterruptedException {
    try (Sim sim = Sim.create(1 << 30)) {
      Block block = Allocator.builder().driver(sim).options("").build().allocate(MIB);
      System.gc();
      Thread.sleep(50);
      assertEquals(MIB, block.info().requested());
      block.close();
    }
  }

  @Test
  void anObserverDoesNotKeepItsAllocator() throws InterruptedException {
    try (Sim sim = Sim.create(1 << 30)) {
      WeakReference<Allocator> allocator = observed(sim);
      eventually("the allocator is collected", () -> allocator.get() == null);
    }
  }

  private static WeakReference<Allocator> observed(Sim sim) {
    Allocator allocator = Allocator.builder().driver(sim).options("").build();
    allocator.onFreeMemory((device, size) -> allocator.isCachingEnabled());
    return new WeakReference<>(allocator);
  }

  @Test
  void aBufferDoesNotOutliveItsBlockUnnoticed() throws InterruptedException {
    try (Driver host = Driver.host(64 * MIB, 1);
        Allocator allocator = Allocator.builder().driver(host).options("").build()) {
      useABuffer(allocator);
      eventually("the memory is freed", () -> allocator.memoryAllocated(0) == 0);
    }
  }

  private static void useABuffer(Allocator allocator) {
    {
      Block block = allocator.allocate(1000);
      ByteBuffer buffer = block.asByteBuffer();
      assertEquals(1000, buffer.capacity());
      buffer.putLong(0, 42).putInt(996, 7);
      ByteBuffer part = buffer.slice(992, 8);
      assertEquals(7, part.getInt(4));
      assertThrows(IllegalStateException.class, block::leak);
      block.close();
      assertThrows(IllegalStateException.class, block::asByteBuffer);
      if (Runtime.version().feature() >= 22) {
        assertThrows(IllegalStateException.class, () -> buffer.getLong(0));
        assertThrows(IllegalStateException.class, () -> part.getInt(0));
        assertEquals(0, allocator.memoryAllocated(0));
      } else {
        assertEquals(42, buffer.getLong(0));
        assertEquals(1024, allocator.memoryAllocated(0), "nobody gets it while there is a buffer");
      }
    }
  }

  @Test
  void anAllocatorThatWasClosedWaitsForBuffers() throws InterruptedException {
    try (Driver host = Driver.host(64 * MIB, 1)) {
      Allocator allocator = Allocator.builder().driver(host).options("").log((level, message) -> { }).build();
      Block block = allocator.allocate(512);
      ByteBuffer buffer = block.asByteBuffer();
      Block other = allocator.allocate(512);
      block.close();
      assertThrows(IllegalStateException.class, allocator::close, "a block is open");
      other.close();
      allocator.close();
      assertThrows(IllegalStateException.class, () -> allocator.stats(0));
      if (Runtime.version().feature() < 22) {
        assertEquals(0, buffer.putInt(0, 1).position());
      }
    }
  }

  @Test
  void closeAllLeavesNobodyWithMemoryThatIsGone() {
    try (Driver host = Driver.host(64 * MIB, 1)) {
      Allocator allocator = Allocator.builder().driver(host).options("").build();
      Block block = allocator.allocate(512);
      ByteBuffer buffer = block.asByteBuffer();
      allocator.closeAll();
      assertThrows(IllegalStateException.class, block::asByteBuffer);
      if (Runtime.version().feature() < 22) {
        assertEquals(1, buffer.putInt(0, 1).getInt(0));
      } else {
        assertThrows(IllegalStateException.class, () -> buffer.getInt(0));
      }
      block.close();
    }
  }

  private static Block ofForgottenTenant(Allocator allocator) {
    return allocator.createTenant(new TenantOptions("forgotten").guaranteedBytes(60 * MIB)).allocate(512, 0, 0);
  }

  @Test
  void aForgottenTenantGivesItsGuaranteeBack() throws InterruptedException {
    try (Sim sim = Sim.create(100 * MIB); Allocator allocator = Allocator.builder().driver(sim).options("").build()) {
      Block[] last = {ofForgottenTenant(allocator)};
      System.gc();
      Thread.sleep(50);
      assertThrows(IllegalArgumentException.class,
          () -> allocator.createTenant(new TenantOptions("next").guaranteedBytes(60 * MIB)));
      last[0].close();
      last[0] = null;
      eventually("there is room for a guarantee", () -> {
        try {
          allocator.createTenant(new TenantOptions("next").guaranteedBytes(60 * MIB)).close();
          return true;
        } catch (IllegalArgumentException full) {
          return false;
        }
      });
    }
  }

  private static ByteBuffer bufferOnly(Allocator allocator) {
    return allocator.allocate(512).asByteBuffer();
  }

  @Test
  void aBufferKeepsWhatItShows() throws InterruptedException {
    try (Driver host = Driver.host(64 * MIB, 1);
        Allocator allocator = Allocator.builder().driver(host).options("").build()) {
      ByteBuffer buffer = bufferOnly(allocator);
      for (int i = 0; i < 5; i++) {
        System.gc();
        Thread.sleep(10);
        buffer.putInt(0, i);
      }
      assertEquals(512, allocator.memoryAllocated(0));
      buffer = null;
      eventually("it is freed after the buffer", () -> allocator.memoryAllocated(0) == 0);
    }
  }

  @Test
  void onlyTheHostDriverHasBuffers() {
    try (Sim sim = Sim.create(0); Allocator allocator = Allocator.builder().driver(sim).options("").build();
        Block block = allocator.allocate(1)) {
      assertThrows(UnsupportedOperationException.class, block::asByteBuffer);
    }
  }

  /** A source may name memory that nobody has: a buffer of it would let Java write anywhere. */
  @Test
  void aBlockOfAPoolsSourceHasNoBuffer() {
    PoolSource source = new PoolSource() {
      @Override
      public long allocate(long size, int device, long stream) {
        return 0x5000000000L;
      }

      @Override
      public void free(long address, long size, int device, long stream) {}
    };
    try (Driver host = Driver.host(64 * MIB, 1);
        Allocator allocator = Allocator.builder().driver(host).options("").build();
        Pool pool = allocator.createPool(0, new PoolOptions().source(source));
        Block block = routed(pool, allocator);
        Block beside = allocator.allocate(1)) {
      assertTrue(block.info().fromSource());
      String message = assertThrows(UnsupportedOperationException.class, block::asByteBuffer).getMessage();
      assertTrue(message.contains("0x5000000000"), message);
      assertFalse(beside.info().fromSource());
      assertEquals(1, beside.asByteBuffer().capacity());
    }
  }

  private static Block routed(Pool pool, Allocator allocator) {
    try (PoolScope scope = pool.route(Route.all())) {
      return allocator.allocate(1);
    }
  }

  /** The recipe of the README. */
  private static boolean collect(Allocator allocator, int device, long size) {
    DeviceTotals totals = allocator.deviceTotals(device);
    if (totals.total() - totals.used() >= size) {
      return false; // the driver has room
    }
    long before = allocator.memoryAllocated(device);
    System.gc(); // the blocks that nobody has are freed on a thread of their own, soon
    for (int i = 0; i < 1000 && allocator.memoryAllocated(device) == before; i++) {
      LockSupport.parkNanos(1_000_000);
    }
    return allocator.memoryAllocated(device) < before;
  }

  @Test
  void aCallbackMayLetTheCollectorFreeWhatNobodyHas() throws InterruptedException {
    try (Sim sim = Sim.create(100 * MIB); Allocator allocator = Allocator.builder().driver(sim).options("").build()) {
      allocator.onFreeMemory((device, size) -> collect(allocator, device, size));
      for (int i = 0; i < 10; i++) { // of which only one fits at a time
        forget(allocator);
      }
      assertTrue(allocator.stats(0).numOoms() == 0);
      eventually("the last one is freed", () -> allocator.memoryAllocated(0) == 0);
    }
  }

  private static void forget(Allocator allocator) {
    allocator.allocate(60 * MIB);
  }
}
