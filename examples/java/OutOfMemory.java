// SPDX-License-Identifier: MIT OR Apache-2.0
// Why "out of memory" although there is free memory, and what the report says. Runs on a simulated device of 80 MiB,
// so it needs no GPU: java -cp cachalot-0.1.0.jar OutOfMemory.java
import io.cachalot.Allocator;
import io.cachalot.Block;
import io.cachalot.Label;
import io.cachalot.OutOfDeviceMemoryException;
import io.cachalot.Report;
import io.cachalot.ReportOptions;
import io.cachalot.Sim;
import java.util.ArrayList;
import java.util.List;

public final class OutOfMemory {
  private static final long MIB = 1 << 20;

  public static void main(String[] arguments) {
    try (Sim device = Sim.create(80 * MIB);
        Allocator allocator = Allocator.builder().driver(device).options("").trackLabels(true).build()) {
      List<Block> blocks = new ArrayList<>();
      try (Label label = Label.push("activations")) {
        for (int i = 0; i < 10; i++) {
          blocks.add(allocator.allocate(5 * MIB));
        }
      }
      for (int i = 1; i < 10; i += 2) {
        blocks.get(i).close();
      }
      try (Block big = allocator.allocate(30 * MIB)) {
        System.out.println(big + " fits");
      } catch (OutOfDeviceMemoryException failure) {
        explain(allocator, failure);
      }
      blocks.forEach(Block::close);
    }
  }

  private static void explain(Allocator allocator, OutOfDeviceMemoryException failure) {
    io.cachalot.OutOfMemory failed = failure.numbers();
    System.out.println(failure.getMessage() + "\n");
    System.out.printf("%d MiB do not fit although %d are cached%n%n", failed.requested() / MIB,
        (failed.reserved() - failed.allocated()) / MIB);
    ReportOptions about = new ReportOptions(failed.device()).request(failed.requested(), failed.stream());
    try (Report report = allocator.report(about)) {
      System.out.print(report.text());
    }
  }
}
