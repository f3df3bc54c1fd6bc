// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.golden;

import io.cachalot.Allocator;
import io.cachalot.Block;
import io.cachalot.BlockInfo;
import io.cachalot.BaseAllocation;
import io.cachalot.Cachalot;
import io.cachalot.ContextLevel;
import io.cachalot.ExpandableSegment;
import io.cachalot.ExpandableTotals;
import io.cachalot.HistoryOptions;
import io.cachalot.PoolId;
import io.cachalot.PoolKey;
import io.cachalot.PoolOptions;
import io.cachalot.PoolSource;
import io.cachalot.Request;
import io.cachalot.ReserveInfo;
import io.cachalot.Route;
import io.cachalot.SimLog;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;

/** The operations that a script consists of, and the calls that each one stands for. */
final class Operations {
  /** Scripts allocate on device 0. */
  static final int DEVICE = 0;
  private static final Map<String, SimLog> SIM_WORDS =
      Map.of("handles", SimLog.HANDLES, "capture_mode", SimLog.CAPTURE_MODES);

  private final Script script;

  Operations(Script script) {
    this.script = script;
  }

  void run(Operation operation) {
    Words words = new Words(operation.line().substring(operation.word().length()));
    String word = operation.word();
    switch (word) {
      case "config", "device", "addresses" -> { }
      case "log" -> log(words);
      case "fabric", "fabric_device" -> fabric(word, (int) words.signed());
      case "a", "at", "raw" -> allocate(word, words);
      case "f", "delete", "r" -> block(word, words);
      case "work", "done", "step", "sync", "capture", "capture_end", "node", "fork", "join", "graph_memory",
          "process" -> device(word, words);
      case "fail", "error", "event_error", "free_error", "pending_error", "own_fail" ->
          script.failures.run(word, words);
      case "ha", "hf", "hr", "hr_at" -> script.pinned.run(word, words);
      case "checkpoint" -> script.checkpoints.take(words);
      case "restore" -> script.checkpoints.restore(words);
      case "sharing", "share", "import", "open", "import_close" -> script.sharing.run(word, words);
      case "empty", "fraction", "get_fraction", "set", "enable", "is_enabled", "callback", "peer", "current",
          "metadata", "annotate", "annotate_at", "history", "reset_peak", "reset_accumulated" ->
          control(word, words);
      case "capture_mark" -> script.did(() -> script.allocator.captureBegin(DEVICE));
      case "capture_unmark" -> script.did(() -> script.allocator.captureEnd(DEVICE));
      default -> {
        if (word.startsWith("pool_")) {
          pool(word, words);
        } else if (word.startsWith("host_")) {
          script.pinned.run(word, words);
        } else {
          question(word, words);
        }
      }
    }
  }

  // ---- Blocks -----------------------------------------------------------------------------------

  private void allocate(String word, Words words) {
    long id = words.signed();
    long size = words.number();
    long stream = words.hex();
    boolean isRaw = word.equals("raw");
    if (!isRaw) {
      script.current = stream;
    } else if (Long.compareUnsigned(size, 1L << 60) >= 0) {
      script.isRestExempt = true;  // The raw entry point has no such limit.
      return;
    } else if (size == 0 && !script.caching) {
      script.isOperationExempt = true;  // It asks the driver for 0 bytes.
    }
    Request request = new Request(size).device(DEVICE).stream(stream).currentStream(script.current);
    if (word.equals("at")) {
      long reference = words.signed();
      long address = script.last.getOrDefault(reference, 0L) + words.numberOr(0);
      if (address == 0) {
        // There is no address 0 to ask for; one that is never in cached memory stands for it.
        script.isTextExempt = true;
        address = 512;
      }
      request.at(address);
    }
    Block block = script.worked(() -> script.allocator.allocate(request));
    if (block == null) {
      return;
    }
    if (!script.isOperationExempt) {
      script.add("R " + Long.toHexString(block.address()));
    }
    script.last.put(id, block.address());
    if (isRaw) {
      if (script.raw.put(id, block) != null) {
        throw new AssertionError("an id of a raw block is used twice");
      }
      return;
    }
    // The block that the id had before is freed after the new one was obtained.
    script.freeLive(id);
    script.live.put(id, block);
  }

  private void block(String word, Words words) {
    switch (word) {
      case "f" -> {
        long id = words.signed();
        script.freeLive(id);
        Block block = script.raw.remove(id);
        if (block != null) {
          freeRaw(block);
        }
      }
      case "delete" -> {
        long address = words.hex();
        if (script.isAsync() || !script.caching) {
          script.isOperationExempt = true;
          return;
        }
        script.did(() -> script.allocator.free(address));
      }
      default -> {
        Block block = script.live.get(words.signed());
        long stream = words.hex();
        if (block != null) {
          script.did(() -> block.recordStream(stream, script.current));
        }
      }
    }
  }

  /**
   * The raw free acts by the mode in force, the library's by how the block was made. Where the two differ PyTorch
   * refuses, or gives a segment away under its blocks.
   */
  private void freeRaw(Block block) {
    if (script.isAsync()) {
      if (block.address() == 0) {
        script.sim.setPendingError(0);
        script.isOperationExempt = true;
        return;
      }
      script.did(block::close);
      return;
    }
    BlockInfo info = block.address() == 0 ? null : block.info();
    if (info != null && script.caching && info.uncached()) {
      script.isOperationExempt = true;
      block.leak();
      return;
    }
    if (info != null && !script.caching && !info.uncached()) {
      script.isRestExempt = true;
      return;
    }
    script.did(() -> block.close(script.current));
  }

  // ---- Limits, options, history -----------------------------------------------------------------

  private void control(String word, Words words) {
    Allocator allocator = script.allocator;
    switch (word) {
      case "empty" -> {
        for (int device = 0; device < script.devices; device++) {
          int each = device;
          if (!script.did(() -> allocator.emptyCache(each, script.current))) {
            return;
          }
        }
      }
      case "fraction" -> {
        double fraction = words.real();
        script.did(() -> allocator.setMemoryFraction(DEVICE, fraction));
      }
      case "get_fraction" -> {
        Double fraction = script.worked(() -> allocator.memoryFraction(DEVICE));
        if (fraction != null) {
          script.add("= fraction " + Answers.allDigits(fraction));
        }
      }
      case "set" -> script.did(() -> allocator.configure(words.rest()));
      case "enable" -> {
        script.caching = !words.word().equals("0");
        script.did(() -> allocator.setCachingEnabled(script.caching));
      }
      case "is_enabled" -> script.answer("enabled " + yesNo(allocator.isCachingEnabled()));
      case "callback" -> {
        for (String id = words.maybe(); id != null; id = words.maybe()) {
          script.armed.add(Long.parseLong(id));
        }
      }
      case "peer" -> {
        int device = (int) words.signed();
        int peer = (int) words.signed();
        script.did(() -> allocator.enablePeerAccess(device, peer));
      }
      case "current" -> script.current = words.hex();
      case "metadata" -> {
        // The library keeps metadata for threads, so no backend can warn of it.
        script.isOperationExempt = script.isAsync();
        script.did(() -> Cachalot.setMetadata(words.rest()));
      }
      case "annotate" -> {
        Block block = script.live.get(words.signed());
        if (block != null) {
          script.did(() -> allocator.annotate(block.address(), words.rest()));
        }
      }
      case "annotate_at" -> {
        long address = words.hex();
        script.did(() -> allocator.annotate(address, words.rest()));
      }
      case "history" -> history(words);
      case "reset_peak" -> script.did(() -> allocator.resetPeakStats(DEVICE));
      default -> script.did(() -> allocator.resetAccumulatedStats(DEVICE));
    }
  }

  private void history(Words words) {
    String level = words.word();
    HistoryOptions options = HistoryOptions.recording(1).enabled(!level.equals("off"));
    options.context(switch (level) {
      case "all" -> ContextLevel.ALL;
      case "alloc" -> ContextLevel.ALLOC;
      case "state" -> ContextLevel.STATE;
      default -> ContextLevel.NEVER;
    });
    String entries = words.maybe();
    if (entries != null) {
      options.maxEntries(Long.parseLong(entries));
    }
    List<String> skipped = new ArrayList<>();
    for (String word = words.maybe(); word != null; word = words.maybe()) {
      if (word.equals("clear")) {
        options.clear(true);
      } else {
        skipped.add(word);
      }
    }
    script.did(() -> script.allocator.recordHistory(options.skipActions(String.join(",", skipped))));
  }

  static String yesNo(boolean flag) {
    return flag ? "yes" : "no";
  }

  // ---- Questions --------------------------------------------------------------------------------

  private void question(String word, Words words) {
    Allocator allocator = script.allocator;
    Answers answers = new Answers(script);
    switch (word) {
      case "stats" -> answers.stats();
      case "snapshot" -> answers.snapshot(PoolId.DEFAULT);
      case "trace" -> answers.history();
      case "settings" -> answers.settings();
      case "end" -> {
        answers.stats();
        if (!script.isAsync()) {
          answers.snapshot(PoolId.DEFAULT);
        }
      }
      case "supports_metadata" -> script.answer("metadata " + yesNo(!script.isAsync()));
      case "context_of" -> {
        Block block = script.live.get(words.signed());
        Long context = block == null ? Long.valueOf(0)
            : script.worked(() -> allocator.contextOf(block.address()));
        if (context != null) {
          script.answer(context == 0 ? "context none" : "context line " + context);
        }
      }
      case "base" -> {
        Block block = script.live.get(words.signed());
        BaseAllocation base = block == null ? null
            : script.worked(() -> allocator.baseAllocation(block.address()));
        if (base != null) {
          script.answer("base " + Long.toHexString(base.address()) + " " + base.size());
        }
      }
      case "largest" -> {
        long atLeast = words.numberOr(0);
        Long size = script.worked(() -> allocator.largestBlock(DEVICE, atLeast, script.current));
        if (size != null) {
          script.answer("largest " + size);
        }
      }
      case "expandable_sizes" -> {
        List<ExpandableSegment> rows = script.worked(() -> allocator.expandableSegments(DEVICE));
        for (ExpandableSegment row : rows == null ? List.<ExpandableSegment>of() : rows) {
          script.answer("expandable " + Long.toHexString(row.stream()) + (row.isSmall() ? " small " : " large ")
              + row.mappedSize());
        }
      }
      case "expandable_totals" -> {
        ExpandableTotals totals = script.worked(allocator::expandableTotals);
        if (totals != null) {
          script.answer("expandable_totals " + totals.bytes() + " " + totals.count());
        }
      }
      case "reserve_class" -> {
        long stream = words.hex();
        script.did(() -> allocator.setReserveClass(stream, words.rest()));
      }
      case "reserve_class_of" -> {
        long stream = words.hex();
        String name = script.worked(() -> allocator.reserveClass(stream));
        if (name != null) {
          script.answer("reserve_class \"" + name + "\"");
        }
      }
      case "default_reserve" -> {
        String name = words.word();
        double fraction = words.real();
        script.did(() -> allocator.setDefaultReserve(name, fraction));
      }
      case "reserve_of" -> {
        String name = words.rest();
        ReserveInfo reserve = script.worked(() -> allocator.reserve(DEVICE, name));
        if (reserve != null) {
          script.answer("reserve \"" + name + "\" " + (reserve.hasReserve() ? Long.toUnsignedString(reserve.reserveBytes()) : "none")
              + (reserve.isClassKnown() ? " known " : " unknown ") + reserve.segmentBytes());
        }
      }
      default -> throw new AssertionError("unknown operation '" + word + "'");
    }
  }

  // ---- Pools ------------------------------------------------------------------------------------

  private void pool(String word, Words words) {
    PoolKey key = script.allocator.pool(DEVICE, words.pool());
    switch (word) {
      case "pool_create" -> create(key, words);
      case "pool_begin" -> {
        Route route = words.route();
        script.did(() -> key.begin(route));
      }
      case "pool_end" -> script.did(() -> key.end(script.current));
      case "pool_release" -> script.did(key::release);
      case "pool_empty" -> script.did(() -> key.empty(script.current));
      case "pool_oom_on" -> script.did(() -> key.setUseOnOom(true));
      case "pool_oom_off" -> script.did(() -> key.setUseOnOom(false));
      case "pool_no_split" -> script.did(key::setNoSplit);
      case "pool_count" -> {
        Integer count = script.worked(key::useCount);
        if (count != null) {
          script.answer("count " + count);
        }
      }
      case "pool_snapshot" -> new Answers(script).snapshot(key.id());
      case "pool_live" -> {
        long[] addresses = Stream.iterate(words.maybe(), Objects::nonNull, before -> words.maybe())
            .map(id -> script.live.get(Long.parseLong(id))).filter(Objects::nonNull)
            .mapToLong(Block::address).sorted().distinct().toArray();
        Boolean equal = script.worked(() -> key.hasLive(addresses));
        if (equal != null) {
          script.answer("live " + yesNo(equal));
        }
      }
      default -> throw new AssertionError("unknown operation '" + word + "'");
    }
  }

  private void create(PoolKey key, Words words) {
    PoolOptions options = new PoolOptions();
    List<String> flags = List.of(words.rest().split(" +"));
    if (flags.contains("own")) {
      options.source(new RecordedSource());
    }
    if (!script.did(() -> key.create(options))) {
      return;
    }
    if (flags.contains("use_on_oom")) {
      script.did(() -> key.setUseOnOom(true));
    }
    if (flags.contains("no_split")) {
      script.did(key::setNoSplit);
    }
  }

  /** A pool's own source of segments: hands out the recorded addresses and prints its calls. */
  private final class RecordedSource implements PoolSource {
    @Override
    public long allocate(long size, int device, long stream) {
      long address = next();
      script.add("D own_malloc " + size + " " + Long.toHexString(stream) + " "
          + (address == 0 ? "null" : Long.toHexString(address)));
      return address;
    }

    private long next() {
      if (script.ownFailures > 0) {
        script.ownFailures--;
        return 0;
      }
      script.ownMadeUp++;
      return script.ownAddresses.isEmpty() ? 0x6000_0000_0000L + (script.ownMadeUp << 32)
          : script.ownAddresses.poll();
    }

    @Override
    public void free(long address, long size, int device, long stream) {
      script.add("D own_free " + Long.toHexString(address));
    }
  }

  // ---- The device -------------------------------------------------------------------------------

  private void device(String word, Words words) {
    switch (word) {
      case "work" -> script.sim.queueWork(DEVICE, words.hex());
      case "done" -> script.sim.finishStream(DEVICE, words.hex());
      case "step" -> script.sim.finishOldest(DEVICE, words.hex());
      case "sync" -> {
        for (int device = 0; device < script.devices; device++) {
          script.sim.finishDevice(device);
        }
      }
      case "capture" -> {
        long stream = words.hex();
        script.sim.beginCapture(DEVICE, stream, words.number());
      }
      case "capture_end" -> script.sim.endCapture(DEVICE, words.number());
      case "node" -> script.sim.addNode(DEVICE, words.hex());
      case "fork" -> {
        long from = words.hex();
        script.sim.forkCapture(DEVICE, from, words.hex());
      }
      case "join" -> {
        long into = words.hex();
        script.sim.joinCapture(DEVICE, into, words.hex());
      }
      case "graph_memory" -> {
        long used = words.number();
        script.sim.setGraphMemory(DEVICE, used, words.number());
      }
      default -> {
        long pid = words.number();
        script.sim.addProcess(DEVICE, pid, words.number());
      }
    }
  }

  private void fabric(String word, int number) {
    if (word.equals("fabric")) {
      script.fabricCode = number;
    } else {
      script.fabricState = number;
    }
    script.sim.setFabric(DEVICE, script.fabricState, script.fabricCode);
  }

  private void log(Words words) {
    for (String word = words.maybe(); word != null; word = words.maybe()) {
      if (SIM_WORDS.containsKey(word)) {
        script.simLog.add(SIM_WORDS.get(word));
      } else {
        script.log.add(word);
      }
    }
    script.sim.logCalls(script.simLog);
  }
}
