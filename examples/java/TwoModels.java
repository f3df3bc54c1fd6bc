// SPDX-License-Identifier: MIT OR Apache-2.0
// Two models, of which one fits the device: loading one evicts the other, by callbacks of tenants:
// CACHALOT_DRIVER=sim:1GiB java -cp cachalot-0.1.0.jar TwoModels.java
import io.cachalot.Allocator;
import io.cachalot.Block;
import io.cachalot.Pressure;
import io.cachalot.Tenant;
import io.cachalot.TenantOptions;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

public final class TwoModels {
  private static final int LAYERS = 12;
  private static final long LAYER_SIZE = 64 << 20;

  /** A model whose weights are loaded or not. */
  private static final class Model implements AutoCloseable {
    private final String name;
    private final Tenant tenant;
    private final List<Block> weights = new ArrayList<>();

    Model(Allocator allocator, String name) {
      this.name = name;
      tenant = allocator.createTenant(new TenantOptions(name).onPressure(this::evict));
    }

    /** Is asked when the other model finds no memory. It has no guarantee, so it gives all. */
    private long evict(Pressure pressure) {
      if (pressure.requesterName().equals(name)) {
        return 0;  // Not while it is loading.
      }
      long freed = weights.size() * LAYER_SIZE;
      weights.forEach(Block::close);
      weights.clear();
      System.out.printf("%s gives %d MiB for %s%n", name, freed >> 20, pressure.requesterName());
      return freed;
    }

    void load() {
      while (weights.size() < LAYERS) {
        weights.add(tenant.allocate(LAYER_SIZE, 0, 0));
      }
      System.out.println(name + " is loaded");
    }

    @Override
    public void close() {
      weights.forEach(Block::close);
      tenant.close();
    }
  }

  public static void main(String[] arguments) {
    try (Allocator allocator = Allocator.create()) {
      // Smaller than both models together, whatever the device is.
      allocator.setMemoryLimit(0, OptionalLong.of(1 << 30));
      try (Model chat = new Model(allocator, "chat"); Model search = new Model(allocator, "search")) {
        for (int round = 0; round < 2; round++) {
          chat.load();
          search.load();
        }
      }
    }
  }
}
