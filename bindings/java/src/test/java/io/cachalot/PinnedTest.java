// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** Pinned host memory. */
final class PinnedTest {
  private static final long MIB = 1 << 20;
  private static final boolean BUFFERS_END = Runtime.version().feature() >= 22;

  private static Allocator asInPyTorch(Driver driver) {
    return Allocator.builder().driver(driver).options("").build();
  }

  private static Allocator asOfADevice(Driver driver) {
    return Allocator.builder().driver(driver).options("").pinnedConfig("").build();
  }

  /** Each way to cache, over each driver that has memory here. */
  private static void overEach(Consumer<Allocator> test) {
    for (String name : List.of("host:1GiB", "sim:1GiB")) {
      try (Driver driver = Driver.open(name); Allocator first = asInPyTorch(driver);
          Allocator second = asOfADevice(driver)) {
        test.accept(first);
        test.accept(second);
        first.check();
        second.check();
      }
    }
  }

  @Test
  void aPinnedBlockIsABuffer() {
    overEach(allocator -> {
      for (long size : new long[] {1, 511, 4097, 3 * MIB}) {
        try (PinnedBlock block = allocator.allocatePinned(size)) {
          ByteBuffer buffer = block.buffer();
          assertTrue(buffer.isDirect());
          assertEquals(ByteOrder.BIG_ENDIAN, buffer.order());
          assertEquals(size, buffer.capacity());
          assertEquals(size, block.size());
          assertTrue(block.blockSize() >= size);
          assertEquals(0, block.address() % 512);
          assertSame(allocator, block.allocator());
          buffer.put((int) size - 1, (byte) 7);
          assertNotSame(buffer, block.buffer());
          assertEquals(7, block.buffer().get((int) size - 1));
          assertEquals(7, block.buffer(size - 1, 1).get(0));
          assertEquals(0, block.buffer(size, 0).capacity());
        }
      }
      assertEquals(0, allocator.pinnedStats().activeRequests().current());
    });
  }

  @Test
  void aPartLiesWithinWhatWasRequested() {
    overEach(allocator -> {
      try (PinnedBlock block = allocator.allocatePinned(100)) {
        block.buffer().putInt(40, 0x01020304);
        ByteBuffer part = block.buffer(40, 4);
        assertEquals(0x01020304, part.getInt());
        assertEquals(0, part.remaining());
        for (long[] wrong : new long[][] {{0, 101}, {97, 4}, {-1, 1}, {0, -1}, {Long.MAX_VALUE, 1}, {101, 0}}) {
          assertThrows(IndexOutOfBoundsException.class, () -> block.buffer(wrong[0], (int) wrong[1]));
        }
      }
    });
  }

  @Test
  void aBlockOfMoreThanTwoGigabytesHasParts() {
    try (Driver host = Driver.host(8L << 30, 1); Allocator allocator = asInPyTorch(host);
        PinnedBlock block = allocator.allocatePinned((2L << 30) + 1)) {
      assertThrows(UnsupportedOperationException.class, block::buffer);
      block.buffer(2L << 30, 1).put(0, (byte) 7);
      assertEquals(7, block.buffer((2L << 30) - 1, 2).get(1));
    }
  }

  @Test
  void aClosedBlockRefusesBuffers() {
    overEach(allocator -> {
      PinnedBlock block = allocator.allocatePinned(100);
      ByteBuffer buffer = block.buffer();
      ByteBuffer part = block.buffer(4, 4);
      ByteBuffer slice = buffer.slice(8, 8);
      block.close();
      block.close();
      assertThrows(IllegalStateException.class, block::buffer);
      assertThrows(IllegalStateException.class, () -> block.buffer(0, 1));
      assertThrows(IllegalStateException.class, block::address);
      assertThrows(IllegalStateException.class, block::blockSize);
      assertThrows(IllegalStateException.class, () -> block.recordStream(0, 7));
      assertTrue(block.toString().endsWith("closed)"), block.toString());
      if (BUFFERS_END) {
        for (ByteBuffer each : List.of(buffer, part, slice)) {
          assertThrows(IllegalStateException.class, () -> each.get(0));
        }
      }
    });
  }

  @Test
  void aRequestOfNoBytesGivesAnEmptyBlock() {
    overEach(allocator -> {
      try (PinnedBlock block = allocator.allocatePinned(0)) {
        assertEquals(0, block.address());
        assertEquals(0, block.blockSize());
        assertEquals(0, block.buffer().capacity());
        block.recordStream(0, 7);
      }
      assertEquals(0, allocator.pinnedStats().allocations().allocated());
    });
  }

  @Test
  void whatCannotBeHandedOutIsRefused() {
    overEach(allocator -> {
      assertThrows(IllegalArgumentException.class, () -> allocator.allocatePinned(-1));
      assertThrows(RuntimeException.class, () -> allocator.allocatePinned(Long.MAX_VALUE));
      assertThrows(IllegalArgumentException.class, () -> allocator.allocatePinned(1, 1, 0));
      assertEquals(0, allocator.pinnedStats().allocations().current());
    });
  }

  @Test
  void pinnedMemoryIsNoDeviceMemory() {
    overEach(allocator -> {
      try (PinnedBlock block = allocator.allocatePinned(4096)) {
        assertThrows(IllegalArgumentException.class, () -> allocator.free(block.address()));
        assertThrows(IllegalArgumentException.class, () -> allocator.adopt(block.address()));
        assertEquals(0, allocator.stats(0).allocation().all().current());
      }
    });
  }

  @Test
  void anAllocatorWithPinnedBlocksRefusesToClose() {
    for (boolean isOfADevice : new boolean[] {false, true}) {
      try (Driver host = Driver.host(64 * MIB, 1)) {
        Allocator allocator = isOfADevice ? asOfADevice(host) : asInPyTorch(host);
        PinnedBlock block = allocator.allocatePinned(4096);
        ByteBuffer buffer = block.buffer();
        assertTrue(assertThrows(IllegalStateException.class, allocator::close).getMessage().contains("1 block"));
        buffer.put(0, (byte) 1);
        allocator.closeAll();
        assertThrows(IllegalStateException.class, block::buffer);
        assertThrows(IllegalStateException.class, block::address);
        assertThrows(IllegalStateException.class, () -> allocator.allocatePinned(1));
        if (BUFFERS_END) {
          assertThrows(IllegalStateException.class, () -> buffer.get(0));
        }
        block.close();
      }
    }
  }

  /** Before Java 22 the memory of a closed device block waits for its buffer. */
  @Test
  void anAllocatorDoesNotTakePinnedBlocksForBuffersOfOthers() {
    try (Driver host = Driver.host(64 * MIB, 1)) {
      Allocator allocator = asInPyTorch(host);
      Block device = allocator.allocate(512);
      ByteBuffer lent = device.asByteBuffer();
      PinnedBlock pinned = allocator.allocatePinned(512);
      device.close();
      assertThrows(IllegalStateException.class, allocator::close);
      pinned.close();
      allocator.close();
      assertEquals(512, lent.capacity());
    }
  }

  @Test
  void aBlockThatAStreamUsesWaitsForItAfterItsFree() {
    for (boolean isOfADevice : new boolean[] {false, true}) {
      try (Sim sim = Sim.create(1 << 30, 2);
          Allocator allocator = isOfADevice ? asOfADevice(sim) : asInPyTorch(sim)) {
        PinnedBlock block = allocator.allocatePinned(2 * MIB);
        final long address = block.address();
        sim.queueWork(1, 7);
        block.recordStream(1, 7);
        assertThrows(IllegalArgumentException.class, () -> block.recordStream(2, 7));
        block.close();
        try (PinnedBlock other = allocator.allocatePinned(2 * MIB)) {
          assertNotEquals(address, other.address());
          sim.finishStream(1, 7);
          try (PinnedBlock again = allocator.allocatePinned(2 * MIB)) {
            assertEquals(address, again.address());
          }
        }
      }
    }
  }

  @Test
  void callsAreCountedAndCanFail() {
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = asInPyTorch(sim)) {
      sim.logCalls(EnumSet.of(SimLog.CALLS));
      allocator.allocatePinned(3000).close();
      PinnedStats stats = allocator.pinnedStats();
      assertEquals(new Stat(1, 1, 1, 0), stats.allocations());
      assertEquals(4096, stats.allocatedBytes().current());
      assertEquals(new Stat(0, 1, 1, 1), stats.activeRequests());
      assertEquals(4096, stats.activeBytes().peak());
      assertEquals(1, stats.allocateTimes().count());
      assertEquals(new CallTimes(0, 0, 0, 0), stats.freeTimes());
      allocator.emptyPinnedCache();
      assertEquals("host_alloc 4096\nhost_free\n", sim.readCalls());
      allocator.resetPinnedPeakStats();
      allocator.resetPinnedAccumulatedStats();
      Stat none = new Stat(0, 0, 0, 0);
      CallTimes noTimes = new CallTimes(0, 0, 0, 0);
      assertEquals(new PinnedStats(none, none, none, none, noTimes, noTimes), allocator.pinnedStats());

      sim.fail(EnumSet.of(SimCall.HOST_ALLOCATE), 2, 0, 1);
      assertEquals(2, assertThrows(DriverException.class, () -> allocator.allocatePinned(1)).driverCode());
      allocator.allocatePinned(1).close();
      sim.fail(EnumSet.of(SimCall.HOST_FREE), 700, 0, 1);
      assertEquals(700, assertThrows(DriverException.class, allocator::emptyPinnedCache).driverCode());
    }
  }

  @Test
  void aGraphKeepsItsPool() {
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = asInPyTorch(sim)) {
      PoolId id = allocator.newPoolId(true);
      sim.beginCapture(0, 7, 9);
      PinnedPool graph;
      try (PinnedPoolScope scope = allocator.routePinned(0, id, Route.capture(9))) {
        graph = scope.pool();
        assertThrows(IllegalStateException.class, () -> allocator.routePinned(0, id, Route.all()));
        PinnedBlock inside = allocator.allocatePinned(4096, 0, 7);
        final long address = inside.address();
        inside.close();
        allocator.allocatePinned(4096).close();
        try (PinnedBlock again = allocator.allocatePinned(4096, 0, 7)) {
          assertEquals(address, again.address(), "the pool has a cache of its own");
        }
      }
      sim.endCapture(0, 9);
      allocator.emptyPinnedCache();
      assertEquals(1, allocator.pinnedStats().allocations().current(), "the graph's");
      PinnedPoolKey key = graph.key();
      assertEquals(id, key.id());
      assertSame(allocator, key.allocator());
      assertThrows(IllegalStateException.class, key::end);
      graph.close();
      graph.close();
      assertThrows(IllegalStateException.class, key::release);
      assertThrows(IllegalStateException.class, () -> key.begin(0, Route.all()));
      allocator.emptyPinnedCache();
      assertEquals(0, allocator.pinnedStats().allocations().current());
      assertThrows(IllegalArgumentException.class, key::release);
      assertThrows(IllegalArgumentException.class, () -> key.begin(1, Route.all()));
      key.begin(0, Route.thisThread());
      key.end();
      key.release();
    }
  }

  private static void forgetAGraph(Allocator allocator, PoolId id) {
    try (PinnedPoolScope scope = allocator.routePinned(0, id, Route.predicate(stream -> true))) {
      allocator.allocatePinned(4096).close();
    }
  }

  @Test
  void aForgottenGraphLeavesItsPool() throws InterruptedException {
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = asInPyTorch(sim)) {
      forgetAGraph(allocator, new PoolId(5, 0));
      LifeTest.eventually("the pool has no user", () -> {
        allocator.emptyPinnedCache();
        return allocator.pinnedStats().allocations().current() == 0;
      });
    }
  }

  @Test
  void pinnedMemoryThatIsCachedAsADevicesHasAnAllocator() {
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = asOfADevice(sim)) {
      Allocator pinned = allocator.pinnedAllocator().orElseThrow();
      assertSame(pinned, allocator.pinnedAllocator().orElseThrow());
      assertTrue(pinned.pinnedAllocator().isEmpty());
      assertEquals("pinned", pinned.driverName());
      assertEquals(1, pinned.deviceCount());
      assertThrows(UnsupportedOperationException.class, () -> pinned.allocatePinned(1));
      PinnedBlock block = allocator.allocatePinned(4096);
      assertEquals(4096, pinned.memoryAllocated(0));
      assertEquals(0, allocator.memoryAllocated(0));
      assertEquals(4096, pinned.blockAt(block.address()).requested());
      pinned.close();
      pinned.closeAll();
      pinned.setMemoryLimit(0, OptionalLong.of(4 * MIB));
      CachalotException failure = assertThrows(CachalotException.class, () -> allocator.allocatePinned(64 * MIB));
      assertEquals("OUT_OF_HOST_MEMORY", Status.nameOf(failure.status()));
      assertThrows(UnsupportedOperationException.class,
          () -> allocator.routePinned(0, new PoolId(1, 0), Route.all()));
      block.buffer().put(0, (byte) 1);
      block.close();
      pinned.check();
      assertTrue(pinned.trim(0, 0, Duration.ZERO) > 0);
      assertEquals(0, allocator.pinnedStats().allocatedBytes().current());
      allocator.close();
      assertThrows(IllegalStateException.class, pinned::emptyCache);
      assertThrows(IllegalStateException.class, () -> pinned.stats(0));
    }
  }

  @Test
  void tenantsAndLabelsOfPinnedMemoryAreTheThreads() {
    try (Sim sim = Sim.create(1 << 30);
        Allocator allocator = Allocator.builder().driver(sim).options("").pinnedConfig(Options.parse(""))
            .trackLabels(true).build()) {
      Allocator pinned = allocator.pinnedAllocator().orElseThrow();
      try (Tenant tenant = pinned.createTenant(new TenantOptions("loader"))) {
        try (TenantScope scope = tenant.enter(); Label label = Label.push("batch");
            PinnedBlock block = allocator.allocatePinned(4096)) {
          assertEquals(4096, tenant.stats(0).allocatedBytes().current());
          assertEquals("batch", pinned.labelStats(0).get(0).label());
        }
      }
    }
  }

  @Test
  void withoutAPinnedConfigThereIsNoSuchAllocator() {
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = asInPyTorch(sim)) {
      assertTrue(allocator.pinnedAllocator().isEmpty());
      for (String wrong : List.of("nonsense:1", "expandable_segments:True", "backend:cudaMallocAsync")) {
        AllocatorBuilder builder = Allocator.builder().driver(sim).pinnedConfig(wrong);
        assertThrows(RuntimeException.class, builder::build, wrong);
      }
      assertThrows(IllegalArgumentException.class, () -> Allocator.builder().pinnedConfig("a\0b"));
    }
  }

  /** A source may name memory that nobody has: a buffer of it would let Java write anywhere. */
  @Test
  void aPoolOfPinnedMemoryHasNoSource() {
    PoolSource source = new PoolSource() {
      @Override
      public long allocate(long size, int device, long stream) {
        return 0x40000000L;
      }

      @Override
      public void free(long address, long size, int device, long stream) {}
    };
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = asOfADevice(sim)) {
      Allocator pinned = allocator.pinnedAllocator().orElseThrow();
      assertThrows(UnsupportedOperationException.class,
          () -> pinned.createPool(0, new PoolOptions().source(source)));
    }
  }

  /** A driver made in C, whose addresses are no memory. */
  private static native long driverOfNumbers(boolean hasPinned);

  @Test
  void aBlockOfADriverThatWasMadeInCHasNoBuffer() throws Exception {
    Library.load();  // Before what uses it.
    System.load(Path.of(PinnedTest.class.getResource("/libcustom_driver.so").toURI()).toString());
    try (Driver driver = Driver.adopt(driverOfNumbers(true)); Allocator first = asInPyTorch(driver);
        Allocator second = asOfADevice(driver)) {
      for (Allocator allocator : List.of(first, second)) {
        try (PinnedBlock block = allocator.allocatePinned(4096)) {
          assertNotEquals(0, block.address());
          assertThrows(UnsupportedOperationException.class, block::buffer);
          assertThrows(UnsupportedOperationException.class, () -> block.buffer(0, 1));
        }
      }
    }
    try (Driver driver = Driver.adopt(driverOfNumbers(false)); Allocator allocator = asInPyTorch(driver)) {
      assertThrows(UnsupportedOperationException.class, () -> allocator.allocatePinned(1));
    }
  }

  @Test
  void aCallbackUnderALockIsRefused() {
    try (Sim sim = Sim.create(1 << 30); Allocator allocator = asInPyTorch(sim);
        PinnedBlock block = allocator.allocatePinned(4096)) {
      List<Throwable> refused = new ArrayList<>();
      Observer observer = allocator.observeTrace(entry -> {
        refused.add(assertThrows(IllegalStateException.class, () -> allocator.allocatePinned(1)));
        refused.add(assertThrows(IllegalStateException.class, block::close));
        refused.add(assertThrows(IllegalStateException.class, () -> block.recordStream(0, 7)));
        refused.add(assertThrows(IllegalStateException.class, allocator::emptyPinnedCache));
        refused.add(assertThrows(IllegalStateException.class,
            () -> allocator.routePinned(0, new PoolId(1, 0), Route.all())));
      });
      allocator.allocate(512).close();
      observer.close();
      assertTrue(refused.size() >= 5 && refused.size() % 5 == 0, refused::toString);
      assertEquals(4096, block.buffer().capacity());
    }
  }

  /** A callback of the pinned allocator goes on with both while another thread closes the allocator. */
  @Test
  void callbacksOfThePinnedAllocatorAreTheAllocatorsOwn() throws InterruptedException {
    try (Sim sim = Sim.create(1 << 30)) {
      Allocator allocator = asOfADevice(sim);
      Allocator pinned = allocator.pinnedAllocator().orElseThrow();
      Thread closing = new Thread(allocator::closeAll);
      AtomicReference<Throwable> thrown = new AtomicReference<>();
      pinned.onFreeMemory((device, size) -> {
        if (closing.getState() == Thread.State.NEW) {
          try {
            assertThrows(IllegalStateException.class, allocator::close);
            closing.start();
            Thread.sleep(50);
            assertEquals(0, allocator.pinnedStats().activeRequests().current());
            assertEquals(0, pinned.stats(0).numOoms());
          } catch (Throwable wrong) {
            thrown.set(wrong);
          }
        }
        return false;
      });
      Block block = pinned.allocate(4096);
      closing.join();
      assertEquals(null, thrown.get());
      assertThrows(IllegalStateException.class, block::address);
      block.close();
    }
  }

  private static ByteBuffer bufferOnly(Allocator allocator) {
    return allocator.allocatePinned(512).buffer().slice(0, 8);
  }

  @Test
  void aBufferKeepsItsBlock() throws InterruptedException {
    try (Driver host = Driver.host(64 * MIB, 1); Allocator allocator = asInPyTorch(host)) {
      ByteBuffer buffer = bufferOnly(allocator);
      for (int i = 0; i < 5; i++) {
        System.gc();
        Thread.sleep(10);
        buffer.putInt(0, i);
      }
      assertEquals(1, allocator.pinnedStats().activeRequests().current());
      assertEquals(4, buffer.getInt(0));
      buffer = null;
      LifeTest.eventually("the block is freed", () -> allocator.pinnedStats().activeRequests().current() == 0);
    }
  }

  private static void forgetEverything(Sim sim, boolean isOfADevice) {
    Allocator allocator = isOfADevice ? asOfADevice(sim) : asInPyTorch(sim);
    allocator.pinnedAllocator().ifPresent(pinned -> pinned.allocate(512));
    allocator.allocatePinned(512).buffer();
  }

  @Test
  void whatNobodyClosedIsGivenBack() throws InterruptedException {
    try (Sim sim = Sim.create(1 << 30)) {
      for (boolean isOfADevice : new boolean[] {false, true}) {
        sim.logCalls(EnumSet.of(SimLog.CALLS));
        sim.readCalls();
        forgetEverything(sim, isOfADevice);
        StringBuilder calls = new StringBuilder();
        LifeTest.eventually("the allocator ends", () -> {
          calls.append(sim.readCalls());
          return calls.toString().contains("host_free");
        });
      }
    }
  }

  @Test
  void manyThreadsUsePinnedMemory() {
    overEach(allocator -> {
      AtomicReference<Throwable> thrown = new AtomicReference<>();
      List<Thread> threads = new ArrayList<>();
      for (int number = 0; number < 4; number++) {
        byte own = (byte) number;
        threads.add(new Thread(() -> {
          try {
            for (int i = 0; i < 200; i++) {
              try (PinnedBlock block = allocator.allocatePinned(1 + i * 37 % 5000)) {
                ByteBuffer buffer = block.buffer();
                while (buffer.hasRemaining()) {
                  buffer.put(own);
                }
                Thread.yield();
                buffer.flip();
                while (buffer.hasRemaining()) {
                  assertEquals(own, buffer.get());
                }
                block.recordStream(0, own);
              }
            }
          } catch (Throwable wrong) {
            thrown.set(wrong);
          }
        }));
      }
      threads.forEach(Thread::start);
      threads.forEach(thread -> {
        try {
          thread.join();
        } catch (InterruptedException interrupted) {
          thrown.set(interrupted);
        }
      });
      assertEquals(null, thrown.get());
      assertFalse(allocator.pinnedStats().allocations().allocated() == 0);
    });
  }
}
