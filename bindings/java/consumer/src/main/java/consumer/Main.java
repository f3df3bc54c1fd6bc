// SPDX-License-Identifier: MIT OR Apache-2.0
package consumer;

import io.cachalot.Allocator;
import io.cachalot.Block;
import io.cachalot.Cachalot;
import io.cachalot.Driver;
import io.cachalot.micrometer.CachalotMetrics;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;

/** Allocates from a jar that was fetched. */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) {
    try (Driver driver = Driver.open("host:64MiB");
        Allocator allocator = Allocator.builder().driver(driver).options("").build();
        Block block = allocator.allocate(1 << 20)) {
      block.asByteBuffer().putInt(0, 42);
      System.out.printf("%s from %s: %d%n", Cachalot.version(), Cachalot.libraryPlace(),
          block.asByteBuffer().getInt(0));
      SimpleMeterRegistry registry = new SimpleMeterRegistry();
      new CachalotMetrics(allocator).bindTo(registry);
      System.out.printf("meters: %s %.0f%n", "cachalot.allocated",
          registry.get("cachalot.allocated").tag("pool", "small").gauge().value());
    }
  }
}
