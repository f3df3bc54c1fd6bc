// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;

/** Pinned host memory; this version hands out none. */
public final class PinnedBlock implements AutoCloseable {
  private final Allocator allocator;
  private final Core core;

  /** What is left of it when it has been collected. */
  private static final class Core extends Resource {
    private final AllocatorCore owner;

    Core(AllocatorCore owner, long address) {
      super("pinned block", address);
      this.owner = owner;
    }

    @Override
    void destroy(long address, Scratch scratch) {
      try (Scratch inner = Scratch.enterIfOpen(owner)) {
        if (inner != null) {
          inner.check(Native.pinnedFree(inner.handle, address, inner.error));
        }
      }
    }
  }

  PinnedBlock(Allocator allocator, long address) {
    this.allocator = allocator;
    core = new Core(allocator.core, address);
    Cleaners.register(this, core);
  }

  /**
   * Whose block it is.
   *
   * @return the allocator
   */
  public Allocator allocator() {
    return allocator;
  }

  /**
   * Its first byte.
   *
   * @return the address
   */
  public long address() {
    long address = core.address();
    if (address == 0) {
      throw core.closed();
    }
    return address;
  }

  /** Gives it back. Again: nothing. */
  @Override
  public void close() {
    core.close();
  }
}
