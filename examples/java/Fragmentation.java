// SPDX-License-Identifier: MIT OR Apache-2.0
// Why "out of memory" although there is free memory: ten blocks are allocated, every second one is freed, a big one is
// asked for. First under the default options, under which it does not fit; then under those that the message advises.
// Runs on a simulated device of 80 MiB: java -cp cachalot-0.1.0.jar Fragmentation.java
import io.cachalot.Allocator;
import io.cachalot.Block;
import io.cachalot.BlockState;
import io.cachalot.OutOfDeviceMemoryException;
import io.cachalot.OutOfMemory;
import io.cachalot.SegmentBlock;
import io.cachalot.Sim;
import io.cachalot.Snapshot;
import java.util.List;
import java.util.stream.Stream;

public final class Fragmentation {
  private static final long MIB = 1 << 20;

  public static void main(String[] arguments) {
    for (String options : List.of("", "expandable_segments:True")) {
      System.out.printf("options: \"%s\"%n%n", options);
      run(options);
    }
  }

  private static void run(String options) {
    try (Sim device = Sim.create(80 * MIB);
        Allocator allocator = Allocator.builder().driver(device).options(options).build()) {
      List<Block> blocks = allocateTenAndFreeEverySecond(allocator);
      try (Block big = allocator.allocate(30 * MIB)) {
        System.out.println("30 MiB fit.");
        System.out.printf("%n%s%n", allocator.memorySummary(0, true));
      } catch (OutOfDeviceMemoryException failure) {
        System.out.println(failure.getMessage());
        System.out.printf("%n%s%n", allocator.memorySummary(0, true));
        explain(allocator, failure.numbers());
      }
      blocks.forEach(Block::close);
    }
  }

  private static List<Block> allocateTenAndFreeEverySecond(Allocator allocator) {
    List<Block> blocks = Stream.generate(() -> allocator.allocate(5 * MIB)).limit(10).toList();
    for (int i = 1; i < blocks.size(); i += 2) {
      blocks.get(i).close();
    }
    return blocks;
  }

  private static void explain(Allocator allocator, OutOfMemory failed) {
    List<SegmentBlock> pieces;
    try (Snapshot snapshot = allocator.snapshot()) {
      pieces = snapshot.segments().stream().flatMap(segment -> segment.blocks().stream())
          .filter(block -> block.state() == BlockState.INACTIVE).toList();
    }
    long largest = pieces.stream().mapToLong(SegmentBlock::size).max().orElse(0);
    System.out.printf("%d MiB do not fit although %d MiB are cached and free.%n", failed.requested() / MIB,
        (failed.reserved() - failed.allocated()) / MIB);
    System.out.printf("They are %d pieces, the largest of %d MiB, so none is big enough.%n", pieces.size(),
        largest / MIB);
    System.out.printf("The device has %d MiB left: no room for a new segment of %d MiB.%n", failed.deviceFree() / MIB,
        failed.segmentSize() / MIB);
    System.out.printf("%d MiB cannot go back to the device: live blocks lie in the same segments.%n",
        allocator.stats(0).inactiveSplitBytes().all().current() / MIB);
  }
}
