// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * Is asked to free memory when a request finds no cached block, before anything else is tried. What it throws goes to
 * its thread's handler of uncaught exceptions, and counts as nothing freed.
 */
@FunctionalInterface
public interface FreeMemoryCallback {
  /**
   * No lock is held; it may free blocks and call anything else.
   *
   * @param device where memory is short
   * @param size bytes of the block that is needed
   * @return whether it freed something: then the cache is searched again
   */
  boolean free(int device, long size);
}
