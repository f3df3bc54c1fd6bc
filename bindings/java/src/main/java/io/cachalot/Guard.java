// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;

/**
 * The safety net under one block: it is reached through its block only, so the cleaner that sees it end knows that
 * the block was collected. A closed block's guard serves another one, since a place in a cleaner's list costs more
 * than an allocation.
 */
final class Guard {
  /** That of an empty block, which has nothing to be freed. */
  static final Guard NONE = new Guard(null);

  private final Watched watched;
  private final Cleaner.Cleanable cleanable;

  /** Guards without a block. A thread has some; they are reached weakly, so that they keep no class loader. */
  static final class Spare {
    private final Guard[] guards = new Guard[64];
    private int count;
  }

  private Guard(Watched watched) {
    this.watched = watched;
    cleanable = watched == null ? null : Cleaners.register(this, watched);
  }

  /** A guard without a block. */
  static Guard take(Scratch scratch) {
    Spare spare = scratch.spareGuards();
    if (spare.count == 0) {
      return new Guard(new Watched());
    }
    Guard guard = spare.guards[--spare.count];
    spare.guards[spare.count] = null;
    return guard;
  }

  /** From now on the block is freed when this is collected. */
  void watch(AllocatorCore core, long address) {
    watched.address = address;
    watched.core = core;
    Reference.reachabilityFence(this);
  }

  /** A buffer of the block, which does not keep it; its memory is freed after the buffer. */
  void lend(WeakReference<ByteBuffer> buffer) {
    watched.buffer = buffer;
  }

  /** Ends the watch. A buffer that somebody has still; else null. */
  ByteBuffer end() {
    if (this == NONE) {
      return null;
    }
    ByteBuffer lent = watched.lent();
    watched.core = null;
    watched.buffer = null;
    Reference.reachabilityFence(this);
    return lent;
  }

  /** After {@link #end}: for the next block. */
  void giveBack(Scratch scratch) {
    if (this == NONE) {
      return;
    }
    Spare spare = scratch.spareGuards();
    if (spare.count == spare.guards.length) {
      cleanable.clean();
    } else {
      spare.guards[spare.count++] = this;
    }
  }

  /** What is left of a block when it has been collected. */
  private static final class Watched implements Runnable {
    /** Null: there is no block. */
    AllocatorCore core;
    long address;
    WeakReference<ByteBuffer> buffer;

    @Override
    public void run() {
      if (core != null) {
        core.freeAbandoned(address, lent());
      }
    }

    ByteBuffer lent() {
      return buffer == null ? null : buffer.get();
    }
  }
}
