// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Memory between two allocators, which could as well be two processes. */
final class ShareTest {
  private static final long MIB = 1 << 20;

  private static Allocator over(String options) {
    try (Driver driver = Driver.open("host-shared:256MiB")) {
      return Allocator.builder().driver(driver).options(options).build();
    }
  }

  private static void awaitSoon(BooleanSupplier what) throws InterruptedException {
    for (int i = 0; i < 10_000 && !what.getAsBoolean(); i++) {
      Thread.sleep(1);
    }
    assertTrue(what.getAsBoolean());
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "expandable_segments:True"})
  void aSharedBlockLivesUntilItIsClosed(String options) throws InterruptedException {
    try (Allocator here = over(options); Allocator there = over(options)) {
      SharedBlock shared = here.allocate(30 * MIB).share();
      String ticket = shared.ticket();
      OpenedBlock opened = there.openBlock(0, ticket);
      assertEquals(30 * MIB, opened.size());
      assertNotEquals(shared.address(), opened.address());
      assertEquals(1, shared.users());
      assertTrue(opened.hasSharer());
      assertEquals(here, shared.allocator());
      assertEquals(there, opened.allocator());
      shared.close();
      shared.close();
      assertThrows(IllegalStateException.class, shared::ticket);
      assertThrows(IllegalStateException.class, () -> there.openBlock(0, ticket));
      assertEquals(1, here.stats(0).allocation().all().current());
      opened.close();
      assertThrows(IllegalStateException.class, opened::address);
      awaitSoon(() -> here.stats(0).allocation().all().current() == 0);
      assertTrue(shared.toString().endsWith(", closed)") && opened.toString().endsWith(", closed)"));
    }
  }

  @Test
  void pytorchsBytesOpenTheMemoryUnderABlock() {
    try (Allocator here = over(""); Allocator there = over(""); Block first = here.allocate(5 * MIB);
        Block block = here.allocate(3 * MIB)) {
      SharedHandle handle = here.share(block.address());
      assertEquals(here.share(first.address()).handle().length, handle.handle().length);
      try (OpenedMemory opened = there.openShared(0, handle)) {
        assertNotEquals(0, opened.address());
        assertEquals(there, opened.allocator());
        assertFalse(opened.toString().contains("closed"));
      }
      assertThrows(IllegalArgumentException.class, () -> there.openShared(0, new SharedHandle(new byte[8], 0)));
      assertThrows(IllegalArgumentException.class, () -> there.openBlock(0, "nonsense"));
    }
  }

  /** Leaves no cleaner for what is opened meanwhile. */
  private static void withoutCleaners(Runnable action) throws Exception {
    Field field = Cleaners.class.getDeclaredField("ALL");
    field.setAccessible(true);
    Object[] all = (Object[]) field.get(null);
    Object[] kept = all.clone();
    Arrays.fill(all, null);
    try {
      action.run();
    } finally {
      System.arraycopy(kept, 0, all, 0, kept.length);
    }
  }

  private static long mappings() throws IOException {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
      return lines.filter(line -> line.contains("memfd:")).count();
    }
  }

  @Test
  void whatGetsNoCleanerIsClosed() throws Exception {
    try (Allocator here = over(""); Allocator there = over(""); Block block = here.allocate(3 * MIB)) {
      SharedHandle handle = here.share(block.address());
      try (OpenedMemory opened = there.openShared(0, handle)) {
        assertNotEquals(0, opened.address());
      }
      long before = mappings();
      withoutCleaners(() -> assertThrows(NullPointerException.class, () -> there.openShared(0, handle)));
      assertEquals(before, mappings());
      try (SharedBlock shared = here.allocate(3 * MIB).share()) {
        String ticket = shared.ticket();
        withoutCleaners(() -> assertThrows(NullPointerException.class, () -> there.openBlock(0, ticket)));
        awaitSoon(() -> shared.users() == 0);
      }
    }
  }

  @Test
  void aBlockThatCannotBeSharedIsThereAsBefore() throws InterruptedException {
    try (Driver host = Driver.host(64 * MIB, 1);
        Allocator allocator = Allocator.builder().driver(host).options("").build()) {
      shareInVain(allocator);
      LifeTest.eventually("the collector frees it", () -> allocator.memoryAllocated(0) == 0);
      Block block = allocator.allocate(MIB);
      assertThrows(UnsupportedOperationException.class, () -> allocator.share(block.address()));
      assertThrows(UnsupportedOperationException.class, block::share);
      assertEquals(MIB, block.info().requested());
      assertEquals(MIB, block.asByteBuffer().capacity());
      assertThrows(IllegalStateException.class, block::share, "there is a buffer");
      block.close();
      assertThrows(IllegalStateException.class, block::share);
    }
  }

  @Test
  void theCollectorClosesWhatIsOpen() throws InterruptedException {
    try (Allocator here = over("expandable_segments:True"); Allocator there = over("expandable_segments:True");
        SharedBlock shared = here.allocate(MIB).share(); Block block = here.allocate(MIB)) {
      long closed = there.expandableTotals().bytes();
      openAndForget(there, shared.ticket(), here.share(block.address()));
      LifeTest.eventually("the block is closed", () -> shared.users() == 0);
      LifeTest.eventually("the memory is closed", () -> there.expandableTotals().bytes() == closed);
    }
  }

  private static void openAndForget(Allocator allocator, String ticket, SharedHandle handle) {
    long closed = allocator.expandableTotals().bytes();
    assertTrue(allocator.openBlock(0, ticket).hasSharer());
    assertNotEquals(0, allocator.openShared(0, handle).address());
    assertNotEquals(closed, allocator.expandableTotals().bytes());
  }

  @Test
  void anAllocatorThatWasCollectedEndsAfterItsSharedBlocks() {
    try (Sim sim = Sim.create(1 << 30)) {
      Allocator allocator = Allocator.builder().driver(sim).options("").build();
      SharedBlock shared = allocator.allocate(MIB).share();
      allocator.core.run();  // the cleaner's way, in one of the two orders
      assertFalse(allocator.core.isClosed());
      shared.close();
      assertTrue(allocator.core.isClosed());
    }
  }

  private static void shareInVain(Allocator allocator) {
    Block block = allocator.allocate(MIB);
    assertThrows(UnsupportedOperationException.class, block::share);
    assertEquals(MIB, allocator.memoryAllocated(0));
  }
}
