// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;

/** A program whose callbacks run on threads that are none of Java's. */
final class ForeignThreadProbe {
  private static final int ROUNDS = 20;

  private ForeignThreadProbe() {}

  /** Empties the cache on a new thread of the system; the status. */
  static native int emptyCache(long allocator);

  private static Set<Long> threads() {
    Set<Long> ids = new TreeSet<>();
    Thread.getAllStackTraces().keySet().forEach(thread -> ids.add(thread.getId()));
    return ids;
  }

  public static void main(String[] arguments) throws Exception {
    try (Sim sim = Sim.create(0); Allocator allocator = Allocator.builder().driver(sim).options("").build()) {
      // After the library, of which it takes the copy that is loaded.
      System.load(Path.of(ForeignThreadProbe.class.getResource("/libforeign_thread.so").toURI()).toString());
      ConcurrentLinkedQueue<Thread> seen = new ConcurrentLinkedQueue<>();
      ConcurrentLinkedQueue<Throwable> thrown = new ConcurrentLinkedQueue<>();
      Thread.setDefaultUncaughtExceptionHandler((thread, throwable) -> thrown.add(throwable));
      Thread main = Thread.currentThread();
      allocator.observeTrace(entry -> {
        if (Thread.currentThread() != main) {
          seen.add(Thread.currentThread());
          throw new IllegalStateException("an observer's own trouble");
        }
      });
      int failed = 0;
      Set<Long> before = threads();
      for (int round = 0; round < ROUNDS; round++) {
        allocator.allocate(1 << 20).close();
        failed += emptyCache(allocator.handle()) == 0 ? 0 : 1;
      }
      before.retainAll(threads());
      Set<Long> left = threads();
      left.removeAll(before);
      System.out.println("callbacks on other threads: " + seen.size() + " of " + ROUNDS + ", thrown: "
          + thrown.size() + ", calls that failed: " + failed + ", threads left: " + left.size() + ", reserved: "
          + allocator.memoryReserved(0));
    }
  }
}
