// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import java.time.Duration;

/** Who works, and since when nobody does. */
final class Activity {
  private int working;
  private long since = System.nanoTime();
  private boolean isTrimmed;

  /** Somebody works, until what is returned is closed. */
  synchronized Working begin() {
    Working one = new Working();
    working++; // once nothing can fail any more
    return one;
  }

  /** Whether memory is to be given back now: true once, until the next request or change. */
  synchronized boolean isToBeTrimmed(Duration idle) {
    // Compared in the unit that does not overflow.
    boolean isIdle = Duration.ofNanos(System.nanoTime() - since).compareTo(idle) >= 0;
    if (working > 0 || isTrimmed || !isIdle) {
      return false;
    }
    isTrimmed = true;
    return true;
  }

  /** Somebody has asked for something, who may have left memory behind. */
  synchronized void touch() {
    since = System.nanoTime();
    isTrimmed = false;
  }

  /** The watermark may be another one. */
  synchronized void changed() {
    isTrimmed = false;
  }

  private synchronized void end() {
    working--;
    touch();
  }

  /** One who works. */
  final class Working implements AutoCloseable {
    private Working() {}

    @Override
    public void close() {
      end();
    }
  }
}
