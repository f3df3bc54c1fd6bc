// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The driver {@code cuda}. Skipped where there is no GPU, unless CACHALOT_GPU_TESTS promises one. */
@Tag("gpu")
final class CudaTest {
  private static final long MIB = 1 << 20;
  /** The default stream by its old name, and the calling thread's own. */
  private static final long LEGACY = 1;

  @BeforeEach
  void needsAGpu() {
    try (Driver driver = Driver.open("cuda")) {
      assertTrue(driver.deviceCount() > 0);
    } catch (DriverException absent) {
      assumeTrue(System.getenv("CACHALOT_GPU_TESTS") != null, absent.getMessage());
      throw absent;
    }
  }

  private static Allocator over(String driver, String options) {
    try (Driver opened = Driver.open(driver)) {
      return Allocator.builder().driver(opened).options(options).trackLabels(true).build();
    }
  }

  @Test
  void blocksOfTheGpu() {
    for (String options : List.of("", "expandable_segments:True", "backend:cudaMallocAsync")) {
      try (Allocator allocator = over("cuda", options)) {
        DeviceTotals before = allocator.deviceTotals(0);
        try (Block block = allocator.allocate(100 * MIB); Block other = allocator.allocate(5 * MIB)) {
          assertTrue(block.address() != 0 && other.address() != block.address());
          block.recordStream(LEGACY);
          assertEquals(100 * MIB, block.info().requested());
          assertTrue(allocator.memoryAllocated(0) >= 105 * MIB);
        }
        allocator.emptyCache();
        assertEquals(0, allocator.memoryReserved(0), options);
        assertEquals(before.total(), allocator.deviceTotals(0).total());
      }
    }
  }

  @Test
  void outOfMemoryInPyTorchsWords() {
    try (Allocator allocator = over("cuda", "")) {
      long total = allocator.deviceTotals(0).total();
      OutOfDeviceMemoryException failure =
          assertThrows(OutOfDeviceMemoryException.class, () -> allocator.allocate(2 * total));
      assertTrue(failure.getMessage().startsWith("CUDA out of memory. Tried to allocate "), failure.getMessage());
      assertEquals(total, failure.numbers().deviceTotal());
      assertEquals(2 * total, failure.numbers().requested());
      assertTrue(failure.numbers().deviceFree() < total);
      allocator.allocate(MIB).close();
    }
  }

  @Test
  void idleMemoryGoesBack() {
    try (Allocator allocator = over("cuda", "")) {
      allocator.allocate(64 * MIB).close();
      assertEquals(64 * MIB, allocator.trim(0, 0, Duration.ZERO));
      try (Label label = Label.push("weights"); Block block = allocator.allocate(MIB);
          Report report = allocator.report(new ReportOptions(0))) {
        assertEquals("weights", report.holders().get(0).label());
        assertEquals(allocator.memoryReserved(0), report.numbers().reserved());
      }
    }
  }

  @Test
  void manyThreads() throws Exception {
    try (Allocator allocator = over("cuda:2GiB", "")) {
      ExecutorService executor = Executors.newFixedThreadPool(64);
      List<Future<?>> futures = new ArrayList<>();
      for (int i = 0; i < 64; i++) {
        int number = i;
        futures.add(executor.submit(() -> {
          for (int round = 0; round < 200; round++) {
            try (Block block = allocator.allocate(512L * (1 + (number * 31 + round) % 4000), 0, 0)) {
              block.recordStream(LEGACY);
            }
          }
        }));
      }
      for (Future<?> each : futures) {
        each.get();
      }
      executor.shutdown();
      allocator.check();
      assertEquals(0, allocator.memoryAllocated(0));
    }
  }

  /** Blocks that nobody closes, with work recorded on another stream. */
  private static void forget(Allocator allocator) {
    for (int i = 0; i < 50; i++) {
      allocator.allocate(MIB).recordStream(LEGACY);
    }
  }

  @Test
  void theCollectorFreesBlocksOfTheGpu() throws InterruptedException {
    try (Allocator allocator = over("cuda", "")) {
      forget(allocator);
      LifeTest.eventually("all blocks are freed", () -> allocator.memoryAllocated(0) == 0);
      allocator.emptyCache();
      assertEquals(0, allocator.memoryReserved(0));
    }
  }
}
