// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * Sees each out-of-memory error before the caller gets it. What it throws goes to its thread's handler of uncaught
 * exceptions.
 */
@FunctionalInterface
public interface OutOfMemoryObserver {
  /**
   * A request failed. No lock is held; it may call the library.
   *
   * @param numbers what it looked like
   */
  void outOfMemory(OutOfMemory numbers);
}
