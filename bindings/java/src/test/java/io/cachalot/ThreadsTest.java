// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Exchanger;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledForJreRange;
import org.junit.jupiter.api.condition.JRE;

/** Many threads, virtual ones, and handles that are closed while they are used. */
final class ThreadsTest {
  private static final int THREADS = 64;
  private static final long MIB = 1 << 20;

  private static Allocator over(Driver driver) {
    return Allocator.builder().driver(driver).options("").trackLabels(true).build();
  }

  /** Runs a task many times on an executor; the first failure is thrown. */
  private static void run(ExecutorService executor, int times, Task task) throws Exception {
    List<Future<?>> futures = new ArrayList<>();
    for (int i = 0; i < times; i++) {
      int number = i;
      futures.add(executor.submit(() -> {
        task.run(number);
        return null;
      }));
    }
    for (Future<?> each : futures) {
      each.get(60, TimeUnit.SECONDS);
    }
    executor.shutdown();
  }

  /** What a thread does. */
  private interface Task {
    void run(int number) throws Exception;
  }

  private static void churn(Allocator allocator, int number) {
    List<Block> held = new ArrayList<>();
    for (int i = 0; i < 500; i++) {
      try {
        held.add(allocator.allocate(512L * (1 + (number * 31 + i) % 4000), 0, number % 8));
      } catch (OutOfDeviceMemoryException full) {
        assertTrue(full.numbers().requested() > 0);
      }
      if (held.size() > 16) {
        Block block = held.remove((number + i) % held.size());
        block.recordStream(number % 8 + 1);
        block.close();
      }
      if (i % 100 == 0) {
        assertTrue(allocator.stats(0).allocation().all().current() >= 0);
      }
    }
    held.forEach(Block::close);
  }

  @Test
  void sixtyFourThreads() throws Exception {
    try (Driver host = Driver.host(512 * MIB, 1); Allocator allocator = over(host)) {
      run(Executors.newFixedThreadPool(THREADS), THREADS, number -> churn(allocator, number));
      allocator.check();
      assertEquals(0, allocator.memoryAllocated(0));
    }
  }

  @Test
  void observersSeeAllThreads() throws Exception {
    AtomicLong events = new AtomicLong();
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim)) {
      allocator.observeTrace(entry -> {
        if (entry.action() == Action.ALLOC) {
          events.incrementAndGet();
        }
      });
      run(Executors.newFixedThreadPool(8), 8, number -> churn(allocator, number));
      assertEquals(8 * 500, events.get());
    }
  }

  @Test
  void otherThreadsFree() throws Exception {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim)) {
      Exchanger<Block> exchanger = new Exchanger<>();
      run(Executors.newFixedThreadPool(2), 2, number -> {
        for (int i = 0; i < 500; i++) {
          exchanger.exchange(allocator.allocate(MIB, 0, number)).close();
        }
      });
      assertEquals(0, allocator.memoryAllocated(0));
    }
  }

  @Test
  void closingWaitsForCalls() throws Exception {
    for (int round = 0; round < 50; round++) {
      try (Sim sim = Sim.create(0)) {
        Allocator allocator = over(sim);
        CountDownLatch started = new CountDownLatch(4);
        ConcurrentLinkedQueue<String> ends = new ConcurrentLinkedQueue<>();
        ExecutorService executor = Executors.newFixedThreadPool(5);
        run(executor, 5, number -> {
          if (number == 4) {
            started.await();
            allocator.closeAll();
            return;
          }
          IllegalStateException closed = assertThrows(IllegalStateException.class, () -> {
            for (int i = 0; ; i++) {
              if (i == 1) {
                started.countDown();
              }
              allocator.free(allocator.allocateUnowned(MIB, 0, number));
            }
          });
          ends.add(closed.getMessage());
        });
        assertEquals(List.of("the allocator is closed"), ends.stream().distinct().toList());
      }
    }
  }

  @Test
  void aBlockIsFreedOnceWhoeverClosesIt() throws Exception {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim)) {
      for (int round = 0; round < 100; round++) {
        Block shared = allocator.allocate(MIB);
        ConcurrentLinkedQueue<Block> next = new ConcurrentLinkedQueue<>();
        CountDownLatch all = new CountDownLatch(4);
        run(Executors.newFixedThreadPool(4), 4, number -> {
          all.countDown();
          all.await();
          shared.close();
          next.add(allocator.allocate(MIB));
        });
        assertEquals(4, next.stream().map(Block::address).distinct().count());
        assertEquals(4 * MIB, allocator.memoryAllocated(0));
        next.forEach(Block::close);
      }
    }
  }

  @Test
  void callbacksOfThreadsThatAreNoneOfJavas() throws Exception {
    String said = Jvm.run(List.of(), Map.of(), List.of("-Xcheck:jni", "-cp", System.getProperty("java.class.path"),
        ForeignThreadProbe.class.getName()));
    assertEquals("callbacks on other threads: 20 of 20, thrown: 20, calls that failed: 0, threads left: 0, "
        + "reserved: 0\n", said);
  }

  private static ExecutorService virtualThreads() throws ReflectiveOperationException {
    return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
  }

  @Test
  @EnabledForJreRange(min = JRE.JAVA_21)
  void virtualThreads1000() throws Exception {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim)) {
      run(virtualThreads(), 1000, number -> {
        try (Label label = Label.push("v" + number % 4); Block block = allocator.allocate(MIB, 0, number % 4)) {
          LockSupport.parkNanos(1_000_000);  // The thread goes on on another carrier.
          try (Label inner = Label.push("inner"); Block other = allocator.allocate(512, 0, number % 4)) {
            LockSupport.parkNanos(1000);
            block.recordStream(9);
          }
        }
      });
      assertEquals(0, allocator.memoryAllocated(0));
      assertEquals(8, allocator.labelStats(0).stream().filter(row -> row.allocation().allocated() == 250).count());
      try (Block block = allocator.allocate(1)) {
        assertEquals(8, allocator.labelStats(0).size(), "no label was left on a carrier");
      }
    }
  }

  /** More of them than carriers, so that they wait for locks while they have labels. */
  @Test
  @EnabledForJreRange(min = JRE.JAVA_21)
  void labelsOfVirtualThreadsThatWaitStayTheirOwn() throws Exception {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim)) {
      run(virtualThreads(), 100, number -> {
        List<Block> held = new ArrayList<>();
        try (Label label = Label.push("v" + number % 4)) {
          for (int i = 0; i < 200; i++) {
            held.add(allocator.allocate(512, 0, number % 4));
            if (i % 16 == 0) {
              Thread.yield();
            }
          }
        }
        held.forEach(Block::close);
      });
      assertEquals(List.of(5000L, 5000L, 5000L, 5000L),
          allocator.labelStats(0).stream().map(row -> row.allocation().allocated()).toList());
    }
  }

  @Test
  @EnabledForJreRange(min = JRE.JAVA_21)
  void whatAVirtualThreadSaysIsSaidOnceInAllItsCalls() throws Exception {
    try (Sim sim = Sim.create(64 * MIB); Allocator allocator = over(sim)) {
      allocator.recordHistory(HistoryOptions.recording(100));
      AtomicLong depth = new AtomicLong();
      allocator.onFreeMemory((device, size) -> {
        if (depth.getAndIncrement() == 0) {
          allocator.allocate(512).close();
        }
        return false;
      });
      run(virtualThreads(), 1, number -> {
        Cachalot.setMetadata("mine");
        try (Label label = Label.push("L")) {
          allocator.allocate(30 * MIB).close();
        }
        allocator.emptyCache();
      });
      assertEquals(List.of("mine"), allocator.history(0).stream().map(TraceEntry::metadata).distinct().toList());
      assertEquals(List.of("L"), allocator.labelStats(0).stream().map(LabelStats::label).toList());
    }
  }

  @Test
  @EnabledForJreRange(min = JRE.JAVA_21)
  void aTenantOfAVirtualThreadIsNotClosed() throws Exception {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim)) {
      Tenant tenant = allocator.createTenant(new TenantOptions("virtual"));
      run(virtualThreads(), 1, number -> {
        try (TenantScope scope = tenant.enter()) {
          assertThrows(IllegalStateException.class, tenant::close);
          allocator.allocate(512).close();
        }
        tenant.close();
        assertThrows(IllegalStateException.class, tenant::enter);
      });
    }
  }

  @Test
  void threadsWhoseLocalsAreErasedKeepTheirMemory() throws Exception {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim)) {
      // On new versions the workers of the common pool erase their thread locals after each task.
      for (int round = 0; round < 2; round++) {
        int before = Scratch.count();
        List<CompletableFuture<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
          tasks.add(CompletableFuture.runAsync(() -> allocator.allocate(512).close()));
        }
        for (CompletableFuture<Void> task : tasks) {
          task.get(60, TimeUnit.SECONDS);
        }
        assertTrue(Scratch.count() - before < 200, "from " + before + " to " + Scratch.count());
      }
    }
  }

  @Test
  @EnabledForJreRange(min = JRE.JAVA_21)
  void tenantsOfVirtualThreads() throws Exception {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim)) {
      Tenant tenant = allocator.createTenant(new TenantOptions("virtual"));
      run(virtualThreads(), 100, number -> {
        try (TenantScope scope = tenant.enter()) {
          LockSupport.parkNanos(1_000_000);
          allocator.allocate(512).close();
        }
        allocator.allocate(512).close();
        try (Pool pool = allocator.createPool(0, new PoolOptions())) {
          assertThrows(IllegalStateException.class, () -> pool.route(Route.thisThread()));
          pool.route(Route.none()).close();
        }
      });
      assertEquals(100, tenant.stats(0).allocation().allocated());
      tenant.close();
    }
  }
}
