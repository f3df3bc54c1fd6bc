// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * What the policy has done on a device. All but {@code pinnedBytes} are sums since the allocator was made, which nothing
 * resets; 0 where PyTorch's decisions are made.
 *
 * @param pagesCreated pages obtained from the driver
 * @param pagesMoved pages that went from cached blocks to where they were missing
 * @param pagesReleased pages given back to the driver
 * @param blocksBorrowed requests served by a cached block of another stream
 * @param streamWaits how often a stream was made to wait for another, on the device
 * @param hostWaits how often a call waited for a stream or the device
 * @param pinnedBytes bytes of pages and plain segments that are pinned now ({@link Allocator#pin}), under either policy
 */
public record PolicyStats(
    long pagesCreated, long pagesMoved, long pagesReleased, long blocksBorrowed, long streamWaits, long hostWaits,
    long pinnedBytes) {
  static PolicyStats of(Structs.PolicyStats from) {
    return new PolicyStats(
        from.pagesCreated, from.pagesMoved, from.pagesReleased, from.blocksBorrowed, from.streamWaits, from.hostWaits,
        from.pinnedBytes);
  }
}
