// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * Sees each rejection before the caller gets it. What it throws goes to its thread's handler of uncaught exceptions.
 */
@FunctionalInterface
public interface RejectionObserver {
  /**
   * A request was refused. No lock is held; it may call the library.
   *
   * @param rejection what it looked like
   */
  void rejected(Rejection rejection);
}
