// SPDX-License-Identifier: MIT OR Apache-2.0
// A block that another stream still reads is not handed out again before that is done. Runs on a simulated device, so
// it needs no GPU: java -cp cachalot-0.1.0.jar Streams.java
import io.cachalot.Allocator;
import io.cachalot.Block;
import io.cachalot.Sim;

public final class Streams {
  private static final long COMPUTE = 0x10;
  private static final long COPY = 0x20;
  private static final long SIZE = 8 << 20;

  private static long allocateAndFree(Allocator allocator) {
    try (Block block = allocator.allocate(SIZE, 0, COMPUTE)) {
      return block.address();
    }
  }

  public static void main(String[] arguments) {
    try (Sim device = Sim.create(1 << 30);
        Allocator allocator = Allocator.builder().driver(device).options("").build()) {
      // Blocks of one stream follow each other without waiting: its work is in order anyway.
      long first = allocateAndFree(allocator);
      long second = allocateAndFree(allocator);
      System.out.println("the same memory at once for the same stream: " + (first == second));

      // A copy on another stream reads the block; it is freed before the copy is done.
      Block read = allocator.allocate(SIZE, 0, COMPUTE);
      long address = read.address();
      device.queueWork(0, COPY);
      read.recordStream(COPY);
      read.close();
      try (Block meanwhile = allocator.allocate(SIZE, 0, COMPUTE)) {
        System.out.println("the same memory while the copy runs: " + (meanwhile.address() == address));
        device.finishStream(0, COPY);
        try (Block afterwards = allocator.allocate(SIZE, 0, COMPUTE)) {
          System.out.println("the same memory after the copy: " + (afterwards.address() == address));
        }
      }
    }
  }
}
