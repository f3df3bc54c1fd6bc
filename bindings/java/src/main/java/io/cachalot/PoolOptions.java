// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;
import java.util.EnumSet;
import java.util.Objects;
import java.util.Set;

/** How a pool is made. */
public final class PoolOptions {
  private Set<PoolFlag> flags = EnumSet.noneOf(PoolFlag.class);
  private PoolSource source;

  /** All defaults. */
  public PoolOptions() {}

  /**
   * What the pool is like; counts for a pool that exists too.
   *
   * @param first one flag
   * @param more others
   * @return this
   */
  public PoolOptions flags(PoolFlag first, PoolFlag... more) {
    flags = EnumSet.of(Objects.requireNonNull(first, "first"), Objects.requireNonNull(more, "more"));
    return this;
  }

  /**
   * Where its segments come from, instead of from the driver; only for a pool that is new.
   *
   * @param source the source
   * @return this
   */
  public PoolOptions source(PoolSource source) {
    this.source = Objects.requireNonNull(source, "source");
    return this;
  }

  Structs.PoolOptions toC() {
    Structs.PoolOptions options = new Structs.PoolOptions();
    options.flags = PoolFlag.bits(flags);
    if (source != null) {
      PoolSource own = source;
      options.source = new Structs.PoolSource();
      options.source.allocate = (size, device, stream) ->
          Scratch.underLock(() -> own.allocate(size, device, stream));
      options.source.free = (address, size, device, stream) -> Scratch.underLock(() -> {
        own.free(address, size, device, stream);
        return null;
      });
    }
    return options;
  }
}
