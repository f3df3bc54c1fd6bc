// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * A native object: what is left of a handle when the handle itself has been collected. A call holds it in use
 * ({@link Scratch#enter}), and closing waits until no call does, so that nobody meets memory that is gone.
 */
abstract class Resource implements Runnable {
  private final String name;
  private volatile long address;

  Resource(String name, long address) {
    this.name = name;
    this.address = address;
  }

  /** 0 once it is closed. Only good while a {@link Scratch} holds this. */
  final long address() {
    return address;
  }

  final boolean isClosed() {
    return address == 0;
  }

  final IllegalStateException closed() {
    return new IllegalStateException("the " + name + " is closed");
  }

  /** Ends the native object; what it throws leaves the object as it was. */
  abstract void destroy(long address, Scratch scratch);

  /** Whether its calls wait for locks of an allocator, so that callbacks under these must not make any. */
  boolean takesLocks() {
    return false;
  }

  /** What is to be done once the object has ended. */
  void ended() {}

  final void close() {
    close(this::destroy);
  }

  /** How an object ends, where there are two ways. */
  @FunctionalInterface
  interface End {
    void end(long address, Scratch scratch);
  }

  final synchronized void close(End end) {
    long open = address;
    if (open == 0) {
      return;
    }
    if (Scratch.isUsedHere(this)) {
      throw new IllegalStateException("the " + name + " can not be closed from within a call of its own");
    }
    try (Scratch scratch = Scratch.enter()) {
      address = 0;
      Scratch.awaitUnused(this);
      try {
        end.end(open, scratch);
      } catch (Throwable thrown) {
        address = open;
        throw thrown;
      }
    }
    ended();
  }

  /** The cleaner's way: nobody is there to whom anything could be thrown. */
  @Override
  public void run() {
    try {
      close();
    } catch (RuntimeException refused) {
      abandoned();
    }
  }

  /** The object could not be ended by the cleaner. */
  void abandoned() {}
}
