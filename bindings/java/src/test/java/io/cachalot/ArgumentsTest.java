// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Numbers and texts that C would take for others. */
final class ArgumentsTest {
  private static final long MIB = 1 << 20;
  private static final Duration AGES = Duration.ofSeconds(Long.MAX_VALUE);

  private static void refused(String name, Executable call) {
    String said = assertThrows(IllegalArgumentException.class, call).getMessage();
    assertEquals(name + " is negative: ", said.substring(0, said.indexOf(':') + 2));
  }

  @Test
  void negativeSizesAreRefused() {
    try (Sim sim = Sim.create(0); Allocator allocator = Allocator.builder().driver(sim).options("").build()) {
      refused("size", () -> allocator.allocate(-1));
      refused("size", () -> allocator.allocate(Long.MIN_VALUE, 0, 0));
      refused("size", () -> allocator.allocateUnowned(-1, 0, 0));
      refused("size", () -> new Request(-1));
      refused("size", () -> new ReportOptions(0).request(-1, 0));
      refused("size", () -> allocator.allocatePinned(-1));
      refused("size", () -> allocator.copy(0, 0, 0, 0, -1, 0));
      refused("bytes", () -> allocator.setMemoryLimit(0, OptionalLong.of(-1)));
      refused("atLeast", () -> allocator.largestBlock(0, -1));
      refused("atLeast", () -> allocator.largestBlock(0, -1, 0));
      refused("keepBytes", () -> allocator.trim(0, -1, Duration.ZERO));
      refused("keepBytes", () -> allocator.trimAt(0, -1, Duration.ZERO, Duration.ZERO));
      assertEquals(OptionalLong.empty(), allocator.memoryLimit(0));
      assertEquals(0, allocator.stats(0).numOoms());
    }
    refused("capacity", () -> Sim.create(-1));
    refused("devices", () -> Sim.create(1, -1));
    refused("capacity", () -> Driver.host(-1, 1));
    refused("devices", () -> Driver.host(1, -1));
    refused("bytes", () -> new TenantOptions("").guaranteedBytes(-1));
    refused("bytes", () -> new TenantOptions("").limitBytes(-1));
    refused("bytes", () -> new ReplayOptions().capacity(-1));
    refused("count", () -> new ReplayOptions().eventCount(-1));
    refused("entries", () -> HistoryOptions.recording(-1));
  }

  @Test
  void streamsAndAddressesHaveAllBits() {
    try (Sim sim = Sim.create(0); Allocator allocator = Allocator.builder().driver(sim).options("").build();
        Block block = allocator.allocate(1, 0, -2)) {
      assertEquals(-2, block.info().stream());
      assertThrows(IllegalArgumentException.class, () -> allocator.free(-512));
    }
  }

  @Test
  void timesAreNeitherNegativeNorTooLong() {
    try (Sim sim = Sim.create(0); Allocator allocator = Allocator.builder().driver(sim).options("").build()) {
      refused("minIdle", () -> allocator.trim(0, 0, Duration.ofNanos(-1)));
      refused("minIdle", () -> allocator.trim(0, 0, AGES.negated()));
      refused("now", () -> allocator.trimAt(0, 0, Duration.ZERO, Duration.ofSeconds(-1)));
      refused("latency", () -> sim.setLatency(EnumSet.of(SimCall.ALLOCATE), Duration.ofNanos(-1)));
      allocator.allocate(20 * MIB).close();
      assertEquals(0, allocator.trim(0, 0, AGES));
      assertEquals(0, allocator.trimAt(0, 0, AGES, Duration.ofSeconds(1)));
      assertEquals(20 * MIB, allocator.trimAt(0, 0, Duration.ZERO, AGES));
    }
  }

  @Test
  void anOptionIsCheckedBeforeItIsChanged() {
    Options.Builder builder = Options.builder().option("a", 1);
    assertThrows(NullPointerException.class, () -> builder.option("a", null));
    assertThrows(NullPointerException.class, () -> builder.option(null, 1));
    assertEquals("a:1", builder.build().toString());
    try (Sim sim = Sim.create(0); Allocator allocator = Allocator.builder().driver(sim).options("").build()) {
      Settings.Builder settings = allocator.settings().toBuilder();
      Long[] divisions = new Long[16];
      Arrays.fill(divisions, 0, 15, 8L);
      assertThrows(NullPointerException.class, () -> settings.roundupPower2Divisions(Arrays.asList(divisions)));
      assertEquals(0, settings.build().roundupPower2Divisions().get(0));
    }
  }

  @Test
  void aTextIsNotCutAtItsNul() {
    assertThrows(IllegalArgumentException.class, () -> new ReplayOptions().options("max_split_size_mb:128\0nonsense"));
    assertThrows(IllegalArgumentException.class, () -> Allocator.builder().options("\0"));
    assertThrows(IllegalArgumentException.class, () -> HistoryOptions.off().skipActions("alloc\0"));
    assertThrows(IllegalArgumentException.class, () -> new TenantOptions("a\0b"));
  }
}
