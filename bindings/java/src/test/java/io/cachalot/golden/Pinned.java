// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.golden;

import io.cachalot.Allocator;
import io.cachalot.PinnedBlock;
import io.cachalot.PinnedPoolKey;
import io.cachalot.PinnedStats;
import io.cachalot.Route;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The words of pinned memory.
 *
 * <p>That of {@code sim} is the system's: its addresses are not those of the file, and its calls name none. So
 * addresses are printed as they lie in the ranges of the file, each of which stands for the memory that its first block
 * begins. Which range a "host_free" gives back shows in the requests behind it only.
 */
final class Pinned {
  private static final Pattern OBTAINED = Pattern.compile("D host_(?:alloc|register) (\\d+) 0 ([0-9a-f]+)");
  /** What {@code sim} prints of a call, and how that failed. */
  private static final Pattern CALL =
      Pattern.compile("(D host_(?:(?:alloc|register) \\d+|free|unregister))(?: 0)?(?: [0-9a-f]+)?( oom| error \\d+)?");

  private final Script script;
  private final Map<Long, PinnedBlock> blocks = new HashMap<>();
  /** What PyTorch's allocator got until now, the latest first. */
  private final List<Range> ranges = new ArrayList<>();

  private static final class Range {
    final long begin;
    final long size;
    /** How far the library's lies behind it; 0: not known yet. */
    long shift;

    Range(long begin, long size) {
      this.begin = begin;
      this.size = size;
    }

    boolean contains(long address) {
      return Long.compareUnsigned(address - begin, size) < 0;
    }
  }

  Pinned(Script script) {
    this.script = script;
  }

  void run(String word, Words words) {
    Allocator allocator = script.allocator;
    switch (word) {
      case "ha" -> {
        long id = words.signed();
        allocate(id, words.number());
      }
      case "hf" -> free(words.signed());
      case "hr", "hr_at" -> {
        PinnedBlock block = blocks.get(words.signed());
        long stream = words.hex();
        record(block, stream, words.numberOr(0));
      }
      case "host_empty" -> script.did(allocator::emptyPinnedCache);
      case "host_pool_begin" -> {
        PinnedPoolKey key = allocator.pinnedPool(words.pool());
        Route route = words.route();
        script.did(() -> key.begin(Operations.DEVICE, route));
      }
      case "host_pool_end" -> script.did(allocator.pinnedPool(words.pool())::end);
      case "host_pool_release" -> release(allocator.pinnedPool(words.pool()));
      case "host_sleep" -> sleep(words.number());
      case "host_stats" -> stats();
      case "host_reset_peak" -> script.did(allocator::resetPinnedPeakStats);
      case "host_reset_accumulated" -> script.did(allocator::resetPinnedAccumulatedStats);
      default -> throw new AssertionError("unknown operation '" + word + "'");
    }
  }

  private void allocate(long id, long size) {
    if (size < 0) {
      script.isOperationExempt = true;  // More than a long has: the class refuses it by itself.
      return;
    }
    PinnedBlock block =
        script.worked(() -> script.allocator.allocatePinned(size, Operations.DEVICE, script.current));
    if (block == null) {
      return;
    }
    script.add("R " + Long.toHexString(fileAddress(block.address())));
    free(id);
    blocks.put(id, block);
  }

  private void free(long id) {
    PinnedBlock block = blocks.remove(id);
    if (block != null) {
      script.did(block::close);
    }
  }

  private void record(PinnedBlock block, long stream, long offset) {
    if (block == null) {
      return;
    }
    if (offset != 0 || block.address() == 0) {
      // Only a block can be recorded, at its beginning; one without memory asks nobody.
      script.isOperationExempt = true;
      return;
    }
    if (script.did(() -> block.recordStream(Operations.DEVICE, stream))) {
      script.answer("known");
    }
  }

  private void release(PinnedPoolKey key) {
    script.did(() -> {
      try {
        key.release();
      } catch (IllegalArgumentException unknown) {
        script.isTextExempt = true;  // PyTorch's is a line of the C++ library.
        throw unknown;
      }
    });
  }

  private static void sleep(long milliseconds) {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException interrupted) {
      throw new AssertionError(interrupted);
    }
  }

  private void stats() {
    PinnedStats stats = script.worked(script.allocator::pinnedStats);
    if (stats == null) {
      return;
    }
    script.add("= host_allocations " + Answers.numbers(stats.allocations()));
    script.add("= host_allocated_bytes " + Answers.numbers(stats.allocatedBytes()));
    script.add("= host_active_requests " + Answers.numbers(stats.activeRequests()));
    script.add("= host_active_bytes " + Answers.numbers(stats.activeBytes()));
    script.add("= host_counters alloc " + stats.allocations().allocated() + " free " + stats.allocations().freed()
        + " alloc_times " + stats.allocateTimes().count() + " free_times " + stats.freeTimes().count());
  }

  // ---- Addresses --------------------------------------------------------------------------------

  /** Reads the expected lines such as "D host_alloc 512 0 7f0000000000". */
  void readRanges() {
    for (String line : script.expected) {
      Matcher obtained = OBTAINED.matcher(line);
      if (obtained.matches()) {
        ranges.add(0, new Range(Words.hex(obtained.group(2)), Long.parseLong(obtained.group(1))));
      }
    }
  }

  /** What the file calls the address that a request got. The latest range counts: others may be gone. */
  private long fileAddress(long address) {
    for (long expected : script.expectedAddresses("R ", null)) {
      for (Range range : ranges) {
        if (!range.contains(expected)) {
          continue;
        }
        if (range.shift == 0) {
          range.shift = address - range.begin;
        }
        return address - range.shift;
      }
    }
    return address;
  }

  /** An expected line in the words of {@code sim}, to which an error 2 is an out of memory. */
  static String asSimPrints(String line) {
    Matcher call = CALL.matcher(line);
    if (!call.matches()) {
      return line;
    }
    String failure = call.group(2) == null ? "" : call.group(2);
    return call.group(1) + (failure.equals(" error 2") ? " oom" : failure);
  }
}
