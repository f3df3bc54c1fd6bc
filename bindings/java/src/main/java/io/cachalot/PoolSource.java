// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * A pool's own source of segments. Its methods run under a lock: they must not call the library. What they throw
 * goes to their thread's handler of uncaught exceptions.
 *
 * <p>The library keeps a source until its pool is gone, so one that refers to its allocator keeps that, too.
 */
public interface PoolSource {
  /**
   * Obtains memory.
   *
   * @param size bytes
   * @param device the device
   * @param stream the thread's current stream
   * @return the address; 0: none, which counts as out of memory. What no memory can be (not at a multiple of 512, over
   *     a live segment, ending above 2^63) is freed again, and the request ends with an IllegalStateException
   */
  long allocate(long size, int device, long stream);

  /**
   * Takes back what {@link #allocate} gave, with the same size, device and stream.
   *
   * @param address the address
   * @param size bytes
   * @param device the device
   * @param stream the stream
   */
  void free(long address, long size, int device, long stream);
}
