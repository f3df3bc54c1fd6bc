// SPDX-License-Identifier: MIT OR Apache-2.0
// The first block: java -cp cachalot-0.1.0.jar FirstBlock.java
import io.cachalot.Allocator;
import io.cachalot.Block;

public final class FirstBlock {
  public static void main(String[] arguments) {
    try (Allocator allocator = Allocator.create(); Block block = allocator.allocate(1 << 20)) {
      System.out.printf("1 MiB at %#x on device 0%n", block.address());
    }
  }
}
