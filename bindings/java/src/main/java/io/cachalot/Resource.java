// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * A native object: what is left of a handle when the handle itself has been collected. A call holds it in use
 * ({@link Scratch#enter}), and closing waits until no call does, so that nobody meets memory that is gone. Calls that
 * come while it is being closed wait for how that ends, since closing may be refused; only those from within a call
 * that closing waits for go on.
 */
abstract class Resource implements Runnable {
  /** Addresses are even. */
  static final long CLOSING = 1;

  private final String name;
  /** What is closed with it: itself, or what has lent it. Calls hold that one in use. */
  final Resource holder;
  /** The native address, with {@link #CLOSING} while it is being closed; 0 once it has ended. */
  private volatile long state;

  Resource(String name, long address) {
    this.name = name;
    holder = this;
    state = address;
  }

  /** A resource that its holder lends. It ends with the holder. */
  Resource(String name, long address, Resource holder) {
    this.name = name;
    this.holder = holder;
    state = address;
  }

  /** One look at the holder's, with {@link #CLOSING}. */
  final long state() {
    return holder.state;
  }

  /** 0 once it is closed. Only good while a {@link Scratch} holds this. */
  final long address() {
    return address(state());
  }

  /** The same for one look at the state, which may change at any moment. */
  final long address(long state) {
    long open = state & ~CLOSING;
    return open == 0 || holder == this ? open : this.state;
  }

  final boolean isClosing() {
    return (state() & CLOSING) != 0;
  }

  final boolean isClosed() {
    return state() == 0;
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

  final void close(End end) {
    if (isClosed()) {
      return;
    }
    Scratch.refuseUnderLock(this);
    // Before the monitor: who holds it waits for the calls of this thread.
    if (Scratch.isUsedHere(this)) {
      throw new IllegalStateException("the " + name + " cannot be closed from within a call of its own");
    }
    if (endOnce(end)) {
      ended();
    }
  }

  private synchronized boolean endOnce(End end) {
    long open = state;
    if (open == 0) {
      return false;
    }
    boolean hasEnded = false;
    try (Scratch scratch = Scratch.enter()) {
      state = open | CLOSING;
      Scratch.awaitUnused(this);
      end.end(open, scratch);
      hasEnded = true;
    } finally {
      state = hasEnded ? 0 : open;
    }
    return true;
  }

  /** Waits until it has been closed, or has not. */
  final synchronized void awaitOutcome() {}

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
