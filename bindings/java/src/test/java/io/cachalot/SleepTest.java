// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Pools that sleep. */
final class SleepTest {
  private static final long MIB = 1 << 20;

  private final List<Allocator> opened = new ArrayList<>();

  @AfterEach
  void close() {
    opened.forEach(Allocator::closeAll);
  }

  private Allocator over(String driver, String options) {
    try (Driver opensIt = Driver.open(driver)) {
      Allocator allocator = Allocator.builder().driver(opensIt).options(options).trackLabels(true).build();
      opened.add(allocator);
      return allocator;
    }
  }

  private Allocator over(String driver) {
    return over(driver, "expandable_segments:True");
  }

  private static Pool poolOf(Allocator allocator) {
    return allocator.createPool(0, new PoolOptions());
  }

  private static Block blockOf(Pool pool, long size) {
    try (PoolScope scope = pool.route(Route.thisThread())) {
      return pool.key().allocator().allocate(size, 0, 0);
    }
  }

  private static byte[] bytesOf(Block block) {
    ByteBuffer buffer = block.asByteBuffer();
    byte[] bytes = new byte[buffer.capacity()];
    buffer.get(0, bytes);
    return bytes;
  }

  private static Block filled(Block block) {
    ByteBuffer buffer = block.asByteBuffer();
    for (int i = 0; i < buffer.capacity(); i++) {
      buffer.put(i, (byte) 17);
    }
    return block;
  }

  private static void assertFilled(int value, Block block) {
    for (byte each : bytesOf(block)) {
      assertEquals(value, each);
    }
  }

  private static void assertRefused(Runnable call) {
    assertThrows(IllegalStateException.class, call::run);
  }

  @Test
  void aPoolThatSleepsGivesItsMemoryBackAndGetsItAgain() {
    Allocator allocator = over("sim:1GiB");
    Pool pool = poolOf(allocator);
    PoolKey key = pool.key();
    Block block = blockOf(pool, 30 * MIB);
    assertEquals(40 * MIB, key.sleep(SleepContents.KEEP, 0));
    assertEquals(0, allocator.memoryReserved(0));
    SleepStats stats = key.sleepStats();
    assertTrue(stats.keptBytes() >= 30 * MIB, stats.toString());
    assertEquals(new SleepStats(PoolState.ASLEEP, 1, 1, 30 * MIB, 40 * MIB, stats.keptBytes(), 0, 0), stats);
    assertEquals(new SleepStats(PoolState.AWAKE, 1, 1, 30 * MIB, 40 * MIB, stats.keptBytes(), 1, 0),
        allocator.sleepStats(0));
    try (Report report = allocator.report(new ReportOptions(0))) {
      assertEquals(40 * MIB, report.numbers().asleep());
    }
    key.wake(0);
    assertEquals(40 * MIB, allocator.memoryReserved(0));
    assertEquals(30 * MIB, block.info().requested());
    assertEquals(new SleepStats(PoolState.AWAKE, 0, 0, 0, 0, 0, 0, 0), key.sleepStats());
    assertEquals(1, allocator.sleepStats(0).numWakes());
  }

  @Test
  void contentsAreKeptOrDiscarded() {
    Pool pool = poolOf(over("host:1GiB"));
    Block block = filled(blockOf(pool, 3 * MIB));
    for (SleepContents contents : List.of(SleepContents.KEEP, SleepContents.KEEP_ALL, SleepContents.DISCARD)) {
      pool.key().sleep(contents, 0);
      pool.key().wake(0);
      assertFilled(contents == SleepContents.DISCARD ? 0 : 17, block);
    }
  }

  @Test
  void contentsAreKeptByLabel() {
    Pool pool = poolOf(over("host:1GiB"));
    List<Block> blocks = new ArrayList<>();
    for (String name : List.of("weights", "cache")) {
      try (Label label = Label.push(name)) {
        blocks.add(filled(blockOf(pool, 20 * MIB)));
      }
    }
    PoolKey key = pool.key();
    key.setSleepContents("cache", SleepContents.DISCARD);
    key.sleep(SleepContents.KEEP, 0);
    key.wake(0);
    assertFilled(17, blocks.get(0));
    assertFilled(0, blocks.get(1));
    for (String label : List.of("", "a\0b")) {
      assertThrows(IllegalArgumentException.class, () -> key.setSleepContents(label, SleepContents.KEEP));
    }
    assertThrows(IllegalArgumentException.class, () -> key.setSleepContents("cache", SleepContents.KEEP_ALL));
    assertThrows(NullPointerException.class, () -> key.setSleepContents(null, SleepContents.KEEP));
    assertThrows(NullPointerException.class, () -> key.sleep(null, 0));
  }

  @Test
  void whileAPoolSleepsItsBlocksCanOnlyBeClosed() {
    Pool pool = poolOf(over("host:1GiB"));
    PoolKey key = pool.key();
    Block block = blockOf(pool, 30 * MIB);
    assertRefused(() -> key.wake(0));
    key.sleep(SleepContents.DISCARD, 0);
    assertRefused(() -> key.sleep(SleepContents.DISCARD, 0));
    assertRefused(block::asByteBuffer);
    assertRefused(block::info);
    assertRefused(() -> block.recordStream(5));
    assertRefused(block::pin);
    assertRefused(() -> pool.route(Route.none()));
    assertEquals(1, key.useCount());
    block.close();
    assertEquals(0, key.sleepStats().blocks());
    key.wake(0);
  }

  @Test
  void buffersEndWhereTheyCanWhenTheirPoolFallsAsleep() {
    Allocator allocator = over("host:1GiB");
    Pool pool = poolOf(allocator);
    Block block = filled(blockOf(pool, 3 * MIB));
    ByteBuffer before = block.asByteBuffer();
    Block other = filled(allocator.allocate(3 * MIB));
    ByteBuffer ofOther = other.asByteBuffer();
    pool.key().sleep(SleepContents.KEEP, 0);
    if (Runtime.version().feature() >= 22) {
      assertRefused(() -> before.get(0));
    }
    assertEquals(17, ofOther.get(0));
    pool.key().wake(0);
    assertFilled(17, block);
    assertSame(block.asByteBuffer(), block.asByteBuffer());
    assertSame(ofOther, other.asByteBuffer());
  }

  @Test
  void aBlockThatWasLentIsClosedWhileItSleeps() {
    Pool pool = poolOf(over("host:1GiB"));
    Block block = filled(blockOf(pool, 3 * MIB));
    pool.key().sleep(SleepContents.KEEP, 0);
    block.close();
    pool.key().wake(0);
  }

  @Test
  void whatCannotSleepIsRefused() {
    Allocator allocator = over("sim:1GiB");
    Pool pool = poolOf(allocator);
    Block block = blockOf(pool, MIB);
    try (PoolScope scope = pool.route(Route.none())) {
      assertRefused(() -> pool.key().sleep(SleepContents.DISCARD, 0));
    }
    try (Pin pin = block.pin()) {
      assertRefused(() -> pool.key().sleep(SleepContents.DISCARD, 0));
    }
    PoolKey unknown = allocator.pool(0, PoolId.ofUser(99));
    assertRefused(unknown::sleepStats);
    assertRefused(() -> unknown.wake(0));
    assertThrows(IllegalArgumentException.class, () -> allocator.sleepStats(9));
    Pool plain = poolOf(over("sim:1GiB", ""));
    Block kept = blockOf(plain, MIB);
    assertThrows(UnsupportedOperationException.class, () -> plain.key().sleep(SleepContents.DISCARD, 0));
    kept.close();
  }

  @Test
  void aPoolThatFindsNoMemorySleepsOn() {
    Allocator allocator = over("sim:64MiB");
    Pool pool = poolOf(allocator);
    Block block = blockOf(pool, 30 * MIB);
    pool.key().sleep(SleepContents.KEEP, 0);
    try (Block other = allocator.allocate(60 * MIB)) {
      var thrown = assertThrows(OutOfDeviceMemoryException.class, () -> pool.key().wake(0));
      assertEquals(40 * MIB, thrown.numbers().requested());
    }
    assertEquals(PoolState.ASLEEP, pool.key().sleepStats().state());
    pool.key().wake(0);
    assertEquals(30 * MIB, block.info().requested());
  }

  @Test
  void aPoolOfATenantFallsAsleepForAnother() {
    Allocator allocator = over("sim:64MiB");
    Tenant idle = allocator.createTenant(new TenantOptions("idle"));
    Tenant busy = allocator.createTenant(new TenantOptions("busy").priority(1));
    Pool pool = poolOf(allocator);
    Block block;
    try (PoolScope scope = pool.route(Route.thisThread())) {
      block = idle.allocate(30 * MIB, 0, 0);
    }
    idle.setSleep(pool.key(), SleepContents.KEEP, 0);
    PoolKey foreign = poolOf(over("sim:64MiB")).key();
    assertThrows(IllegalArgumentException.class, () -> idle.setSleep(foreign, SleepContents.KEEP, 0));
    busy.allocate(60 * MIB, 0, 0).close();
    assertEquals(PoolState.ASLEEP, pool.key().sleepStats().state());
    assertEquals(0, idle.stats(0).allocatedBytes().current());
    assertEquals(30 * MIB, idle.stats(0).asleepBytes());
    pool.key().wake(0);
    idle.neverSleep(pool.key());
    assertThrows(OutOfDeviceMemoryException.class, () -> busy.allocate(60 * MIB, 0, 0));
    assertEquals(PoolState.AWAKE, pool.key().sleepStats().state());
    block.close();
  }
}
