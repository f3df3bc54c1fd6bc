// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Closing while others are in calls, from within calls, and in vain. */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
final class ClosingTest {
  private static final long MIB = 1 << 20;

  private static Allocator over(Driver driver) {
    return Allocator.builder().driver(driver).options("").build();
  }

  /** Closes on another thread; what came of it. */
  private static ConcurrentLinkedQueue<String> closeElsewhere(AutoCloseable closeable, Thread[] thread) {
    ConcurrentLinkedQueue<String> said = new ConcurrentLinkedQueue<>();
    thread[0] = new Thread(() -> {
      try {
        closeable.close();
        said.add("closed");
      } catch (Exception refused) {
        said.add(refused.getMessage());
      }
    });
    thread[0].start();
    return said;
  }

  private static void awaitClosing(Resource resource) throws InterruptedException {
    while (!resource.isClosing()) {
      Thread.sleep(1);
    }
  }

  @Test
  void aBlockThatIsClosedWhileItsAllocatorRefusesToIsFreed() throws Exception {
    try (Sim sim = Sim.create(32 * MIB); Allocator allocator = over(sim)) {
      Block block = allocator.allocate(512);
      Block cached = allocator.allocate(20 * MIB);
      Thread[] closer = new Thread[1];
      ConcurrentLinkedQueue<String> said = new ConcurrentLinkedQueue<>();
      try (Observer observer = allocator.onFreeMemory((device, size) -> {
        if (closer[0] != null) {
          return false;
        }
        said.addAll(List.of("asked"));
        ConcurrentLinkedQueue<String> end = closeElsewhere(allocator, closer);
        try {
          awaitClosing(allocator.core);
          cached.close();
          assertEquals("the allocator cannot be closed from within a call of its own",
              assertThrows(IllegalStateException.class, allocator::close).getMessage());
        } catch (InterruptedException interrupted) {
          throw new IllegalStateException(interrupted);
        }
        return end.isEmpty();
      })) {
        allocator.allocate(30 * MIB).close();
        closer[0].join();
      }
      assertEquals(List.of("asked"), List.copyOf(said));
      assertEquals(512, allocator.memoryAllocated(0));
      block.close();
    }
  }

  @Test
  void callsWaitForAClosingThatIsRefused() throws Exception {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim); Block keep = allocator.allocate(512)) {
      AtomicBoolean isDone = new AtomicBoolean();
      Thread closer = new Thread(() -> {
        while (!isDone.get()) {
          assertThrows(IllegalStateException.class, allocator::close);
        }
      });
      closer.start();
      for (int i = 0; i < 20_000; i++) {
        allocator.allocate(512).close();
      }
      isDone.set(true);
      closer.join();
      assertEquals(512, allocator.memoryAllocated(0));
      assertFalse(keep.address() == 0);
    }
  }

  @Test
  void aTenantIsNotClosedUnderALock() {
    try (Sim sim = Sim.create(0); Allocator allocator = over(sim)) {
      Tenant tenant = allocator.createTenant(new TenantOptions("tenant"));
      ConcurrentLinkedQueue<String> said = new ConcurrentLinkedQueue<>();
      allocator.observeTrace(entry ->
          said.add(assertThrows(IllegalStateException.class, tenant::close).getMessage()));
      allocator.allocate(512).close();
      assertEquals(List.of("this callback runs under a lock of the allocator, and must not call it"),
          said.stream().distinct().toList());
      tenant.close();
    }
  }

  @Test
  void aBufferAndCloseAllAtTheSameTime() throws Exception {
    for (int round = 0; round < 200; round++) {
      try (Driver host = Driver.host(64 * MIB, 1)) {
        Allocator allocator = over(host);
        Block block = allocator.allocate(4096);
        CyclicBarrier both = new CyclicBarrier(2);
        ByteBuffer[] lent = new ByteBuffer[1];
        Thread lender = new Thread(() -> {
          try {
            both.await(10, TimeUnit.SECONDS);
            lent[0] = block.asByteBuffer();
          } catch (Exception closed) {
            assertTrue(closed instanceof IllegalStateException, closed.toString());
          }
        });
        lender.start();
        both.await(10, TimeUnit.SECONDS);
        for (int spin = 0; spin < round * 37 % 3000; spin++) {
          Thread.onSpinWait();
        }
        allocator.closeAll();
        lender.join();
        if (lent[0] != null && Runtime.version().feature() >= 22) {
          assertThrows(IllegalStateException.class, () -> lent[0].get(0));
        } else if (lent[0] != null) {
          assertEquals(7, lent[0].put(0, (byte) 7).get(0));  // The memory is there as long as the buffer.
        }
      }
    }
  }

  @Test
  void aBlockThatLivesOnHasABufferAgain() {
    try (Driver host = Driver.host(64 * MIB, 1); Allocator allocator = over(host)) {
      Block block = allocator.allocate(4096);
      block.asByteBuffer().putInt(0, 42);
      allocator.observeTrace(entry -> assertThrows(IllegalStateException.class, allocator::closeAll));
      allocator.allocate(512).close();
      assertEquals(42, block.asByteBuffer().getInt(0));
      block.close();
    }
  }
}
