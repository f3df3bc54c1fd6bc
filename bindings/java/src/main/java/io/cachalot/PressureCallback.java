// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * Asks a tenant to free memory of its own. What it throws goes to its thread's handler of uncaught exceptions, and
 * counts as nothing freed.
 */
@FunctionalInterface
public interface PressureCallback {
  /**
   * No lock is held, maybe on several threads at the same time. It may free blocks, allocate (such a request asks
   * nobody), change, make and close other tenants; it must not wait for a thread that waits for memory.
   *
   * @param pressure what is asked
   * @return the bytes that were freed; 0: none, and it is not asked again for this request
   */
  long give(Pressure pressure);
}
