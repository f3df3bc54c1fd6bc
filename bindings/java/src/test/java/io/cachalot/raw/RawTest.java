// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.raw;

import io.cachalot.Cachalot;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Drives each kind of parameter and field through the library. */
final class RawTest {
  @BeforeAll
  static void load() {
    Cachalot.version();
  }

  static void equal(Object expected, Object actual) {
    if (!expected.equals(actual)) {
      throw new AssertionError("expected " + expected + ", got " + actual);
    }
  }

  static void ok(int status, ByteBuffer error) {
    if (status != Constants.OK) {
      throw new AssertionError(Structs.Error.read(error, 0).message);
    }
  }

  /** An allocator over a simulated device of 1 GiB, which ends with it. */
  static final class Over implements AutoCloseable {
    final Memory memory = new Memory();
    final ByteBuffer error = memory.sized(Structs.Error.SIZE);
    final long e = Memory.addressOf(error);
    final long driver;
    final long allocator;
    final Memory.Keep kept;

    Over(Structs.AllocatorOptions options) {
      ByteBuffer out = memory.allocate(Long.BYTES);
      ok(Native.driverOpen(memory.text("sim:1GiB"), Memory.addressOf(out), e), error);
      driver = options.driver = out.getLong(0);
      ok(Native.allocatorCreate(options.write(memory), Memory.addressOf(out), e), error);
      allocator = out.getLong(0);
      kept = memory.keep();
    }

    long allocate(long size, long stream) {
      ByteBuffer out = memory.allocate(Long.BYTES);
      ok(Native.allocate(allocator, size, 0, stream, Memory.addressOf(out), e), error);
      return out.getLong(0);
    }

    @Override
    public void close() {
      ok(Native.allocatorDestroyAll(allocator, e), error);
      Native.driverDestroy(driver);
      kept.close();
      memory.close();
    }
  }

  @Test
  void everyStatusHasItsConstant() throws Exception {
    int known = 0;
    for (Field field : Constants.class.getFields()) {
      known += field.getName().equals("OK") || field.getName().startsWith("ERROR_") ? 1 : 0;
    }
    equal((long) known, Native.statusCount());
    try (Memory memory = new Memory()) {
      ByteBuffer out = memory.sized(Structs.StatusDescription.SIZE);
      for (long i = 0; i < Native.statusCount(); i++) {
        equal(Constants.OK, Native.statusAt(i, Memory.addressOf(out)));
        Structs.StatusDescription row = Structs.StatusDescription.read(out, 0);
        String constant = row.name.equals("OK") ? "OK" : "ERROR_" + row.name;
        equal(row.status, Constants.class.getField(constant).getInt(null));
      }
      equal(Constants.ERROR_INVALID_ARGUMENT, Native.statusAt(known, Memory.addressOf(out)));
    }
  }

  @Test
  void structsComeBackAsTheyWereGiven() throws Exception {
    Structs.AllocatorOptions options = new Structs.AllocatorOptions();
    options.config = "max_split_size_mb:128";
    try (Over over = new Over(options)) {
      ByteBuffer out = over.memory.sized(Structs.Settings.SIZE);
      ok(Native.getSettings(over.allocator, Memory.addressOf(out), over.e), over.error);
      Structs.Settings settings = Structs.Settings.read(out, 0);
      equal(128L << 20, settings.maxSplitSize);
      settings.roundupPower2Divisions[3] = 4;
      settings.garbageCollectionThreshold = 0.5;
      ok(Native.setSettings(over.allocator, settings.write(over.memory), over.e), over.error);
      ok(Native.getSettings(over.allocator, Memory.addressOf(out), over.e), over.error);
      Structs.Settings again = Structs.Settings.read(out, 0);
      for (Field field : Structs.Settings.class.getFields()) {
        if (!Modifier.isStatic(field.getModifiers()) && !field.getType().isArray()) {
          equal(field.get(settings), field.get(again));
        }
      }
      equal(4L, again.roundupPower2Divisions[3]);
    }
  }

  @Test
  void aBlockAndItsNumbers() {
    try (Over over = new Over(new Structs.AllocatorOptions())) {
      Structs.Request request = new Structs.Request();
      request.size = 1000;
      request.stream = 7;
      ByteBuffer out = over.memory.allocate(Long.BYTES);
      ok(Native.allocateWith(over.allocator, request.write(over.memory), Memory.addressOf(out), over.e), over.error);
      long address = out.getLong(0);
      ByteBuffer stats = over.memory.sized(Structs.Stats.SIZE);
      ok(Native.getStats(over.allocator, 0, Memory.addressOf(stats), over.e), over.error);
      equal(1024L, Structs.Stats.read(stats, 0).allocatedBytes.all.current);
      ByteBuffer block = over.memory.sized(Structs.Block.SIZE);
      ok(Native.getBlock(over.allocator, address, Memory.addressOf(block), over.e), over.error);
      equal(1000L, Structs.Block.read(block, 0).requested);
      equal(7L, Structs.Block.read(block, 0).stream);
      ok(Native.free(over.allocator, address, over.e), over.error);
      equal(Constants.ERROR_INVALID_ARGUMENT, Native.free(over.allocator, address, over.e));
      request.at = address + 4096;
      ok(Native.allocateWith(over.allocator, request.write(over.memory), Memory.addressOf(out), over.e), over.error);
      equal(address + 4096, out.getLong(0));
    }
  }

  @Test
  void outOfMemoryHasItsNumbers() {
    try (Over over = new Over(new Structs.AllocatorOptions())) {
      ByteBuffer out = over.memory.allocate(Long.BYTES);
      equal(Constants.ERROR_OUT_OF_MEMORY,
          Native.allocate(over.allocator, 2L << 30, 0, 5, Memory.addressOf(out), over.e));
      Structs.Error error = Structs.Error.read(over.error, 0);
      equal(2L << 30, error.requested);
      equal(1L << 30, error.deviceTotal);
      equal(5L, error.stream);
      equal(true, error.message.contains("Tried to allocate 2.00 GiB"));
    }
  }

  @Test
  void callbacksOfEachKind() {
    AtomicLong contexts = new AtomicLong();
    Structs.AllocatorOptions options = new Structs.AllocatorOptions();
    options.contextCapture = contexts::incrementAndGet;
    options.contextText = context -> "f".repeat((int) context);
    List<String> actions = new ArrayList<>();
    try (Over over = new Over(options)) {
      Memory memory = over.memory;
      Structs.HistoryOptions history = new Structs.HistoryOptions();
      history.enabled = 1;
      history.context = Constants.CONTEXT_LEVEL_ALL;
      history.maxEntries = 10;
      ok(Native.recordHistory(over.allocator, history.write(memory), over.e), over.error);
      Callbacks.TraceObserverFn observer =
          entry -> actions.add(Memory.textOf(Native.actionName(entry.action)));
      ok(Native.observeTrace(over.allocator, Memory.entry(Callbacks.TRACE_OBSERVER_FN), Memory.newReference(observer),
          Memory.entry(Callbacks.DESTROY), 0, over.e), over.error);
      Structs.PoolOptions pool = new Structs.PoolOptions();
      pool.source = new Structs.PoolSource();
      pool.source.allocate = (size, device, stream) -> 0x5000000;
      pool.source.free = (address, size, device, stream) -> {};
      ok(Native.poolCreate(over.allocator, 0, 0, 9, pool.write(memory), over.e), over.error);
      Structs.PoolRoute route = new Structs.PoolRoute();
      route.kind = Constants.ROUTE_PREDICATE;
      route.predicate = stream -> stream == 3 ? 1 : 0;
      ok(Native.poolBegin(over.allocator, 0, 0, 9, route.write(memory), over.e), over.error);
      equal(0x5000000L, over.allocate(1, 3));
      ok(Native.poolEnd(over.allocator, 0, 0, 9, over.e), over.error);
      equal(List.of("segment_alloc", "alloc"), actions);
      ByteBuffer text = memory.allocate(10);
      ByteBuffer length = memory.allocate(Long.BYTES);
      ok(Native.contextText(over.allocator, 3, Memory.addressOf(text), 10, Memory.addressOf(length), over.e), over.error);
      equal("fff", Memory.textOf(Memory.addressOf(text)));
      equal(true, contexts.get() > 0);
      Callbacks.FreeMemoryFn throwing = (device, size) -> { throw new IllegalStateException("as expected"); };
      ok(Native.registerFreeMemoryCallback(over.allocator, Memory.entry(Callbacks.FREE_MEMORY_FN),
          Memory.newReference(throwing), Memory.entry(Callbacks.DESTROY), 0, over.e), over.error);
      List<Throwable> thrown = new ArrayList<>();
      Thread.currentThread().setUncaughtExceptionHandler((thread, exception) -> thrown.add(exception));
      over.allocate(1, 0);
      Thread.currentThread().setUncaughtExceptionHandler(null);
      equal("as expected", thrown.get(0).getMessage());
    }
  }

  @Test
  void aTraceIsWrittenReadAndReplayed() {
    try (Over over = new Over(new Structs.AllocatorOptions())) {
      Memory memory = over.memory;
      Structs.HistoryOptions history = new Structs.HistoryOptions();
      history.enabled = 1;
      history.maxEntries = 10;
      ok(Native.recordHistory(over.allocator, history.write(memory), over.e), over.error);
      over.allocate(1, 0);
      ByteBuffer out = memory.allocate(Long.BYTES);
      ok(Native.snapshotTake(over.allocator, 0, Memory.addressOf(out), over.e), over.error);
      long snapshot = out.getLong(0);
      failsWithItsHandler(over, snapshot);
      ByteBuffer file = ByteBuffer.allocate(1 << 16);
      Callbacks.WriteFn write = data -> { file.put(data); return 0; };
      ok(Native.traceWrite(snapshot, 0, memory.text("ein Test: ä"), Memory.entry(Callbacks.WRITE_FN),
          memory.hold(write), over.e), over.error);
      Native.snapshotDestroy(snapshot);
      file.flip();
      Callbacks.ReadFn read = buffer -> {
        int size = Math.min(buffer.remaining(), file.remaining());
        buffer.put(0, file, file.position(), size);
        file.position(file.position() + size);
        return size;
      };
      ok(Native.traceRead(Memory.entry(Callbacks.READ_FN), memory.hold(read), Memory.addressOf(out), over.e), over.error);
      long trace = out.getLong(0);
      ByteBuffer info = memory.sized(Structs.TraceInfo.SIZE);
      equal(Constants.OK, Native.traceGetInfo(trace, Memory.addressOf(info)));
      equal("ein Test: ä", Structs.TraceInfo.read(info, 0).workload);
      ok(Native.replayRun(trace, 0, Memory.addressOf(out), over.e), over.error);
      ByteBuffer result = memory.sized(Structs.ReplayResult.SIZE);
      equal(Constants.OK, Native.replayGetResult(out.getLong(0), Memory.addressOf(result)));
      equal(1L, Structs.ReplayResult.read(result, 0).allocations);
      Native.replayDestroy(out.getLong(0));
      Native.traceDestroy(trace);
    }
  }

  /** A callback that throws has failed, also where what it throws cannot be reported. */
  private static void failsWithItsHandler(Over over, long snapshot) {
    Callbacks.WriteFn write = data -> { throw new IllegalStateException("written"); };
    Callbacks.ReadFn read = buffer -> { throw new IllegalStateException("read"); };
    Thread.currentThread().setUncaughtExceptionHandler((thread, thrown) -> { throw new AssertionError("handler"); });
    try {
      equal(Constants.ERROR_CALLBACK, Native.traceWrite(snapshot, 0, 0, Memory.entry(Callbacks.WRITE_FN),
          over.memory.hold(write), over.e));
      equal(Constants.ERROR_CALLBACK, Native.traceRead(Memory.entry(Callbacks.READ_FN), over.memory.hold(read),
          Memory.addressOf(over.memory.allocate(Long.BYTES)), over.e));
    } finally {
      Thread.currentThread().setUncaughtExceptionHandler(null);
    }
  }
}
