// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** The sessions of a pool, which the tenant's callback sees too. */
final class Shelf {
  private final int most;
  /** The size of the model's file: about what a session's weights take. */
  private final long weights;
  private final Deque<Lent> idle = new ArrayDeque<>();
  /** Those and the ones in use. */
  private int count;
  private long evicted;

  /** Makes a session. */
  @FunctionalInterface
  interface Maker {
    OrtSession make() throws OrtException;
  }

  /** Sessions that there are, and how many were closed for want of memory. */
  record Counts(int sessions, long evicted) {}

  Shelf(int most, long weights) {
    this.most = most;
    this.weights = weights;
  }

  synchronized Counts counts() {
    return new Counts(count, evicted);
  }

  /** The idle session that became so last, else a new one while there are not enough, else waits. */
  Lent lend(Maker maker) throws OrtException {
    Lent lent = takeOrCount();
    if (lent != null) {
      return lent;
    }
    try {
      lent = new Lent();
      lent.session = maker.make(); // without the lock: it may ask for memory, and so for what is idle here
    } finally {
      if (lent == null || lent.session == null) {
        forget();
      }
    }
    return lent;
  }

  /** Null: there may be one more, and it is counted from here on. */
  private synchronized Lent takeOrCount() {
    boolean isInterrupted = false;
    while (idle.isEmpty() && count == most) {
      try {
        wait();
      } catch (InterruptedException again) {
        isInterrupted = true;
      }
    }
    if (isInterrupted) {
      Thread.currentThread().interrupt();
    }
    if (idle.isEmpty()) {
      count++;
    }
    return idle.pollLast();
  }

  private synchronized void forget() {
    count--;
    notifyAll();
  }

  private synchronized void giveBack(Lent lent) {
    idle.addLast(lent);
    notifyAll();
  }

  private synchronized List<Lent> takeIdle() {
    List<Lent> taken = new ArrayList<>(idle);
    idle.clear();
    count -= taken.size();
    evicted += taken.size();
    notifyAll();
    return taken;
  }

  /** Closes idle sessions; about how many bytes that freed. */
  long evict() {
    List<Lent> taken = takeIdle();
    for (Lent lent : taken) { // without the lock
      try {
        lent.session.close();
      } catch (OrtException | RuntimeException | Error failed) { // the others are to be closed all the same
        System.err.println("a session is not closed: " + failed);
      }
    }
    return taken.size() * weights;
  }

  /** A session, for one run at a time. Made with it, so that lending it cannot fail for want of Java's memory. */
  final class Lent implements AutoCloseable {
    private OrtSession session;

    private Lent() {}

    OrtSession session() {
      return session;
    }

    @Override
    public void close() {
      giveBack(this);
    }
  }
}
