// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * The statistics of pinned memory, as {@code torch.cuda.host_memory_stats} has them. Bytes are those of blocks.
 * Peaks of the active figures are sums of each size's own peak, as in PyTorch. Under {@link Release#V2_11} the
 * active figures are wrong, as there: a free without streams does not lower them.
 *
 * @param allocations blocks that were obtained, cached ones too
 * @param allocatedBytes their bytes
 * @param activeRequests blocks handed out, or waiting for streams after their free
 * @param activeBytes their bytes
 * @param allocateTimes of calls that obtained memory
 * @param freeTimes of calls that gave memory back
 */
public record PinnedStats(
    Stat allocations, Stat allocatedBytes, Stat activeRequests, Stat activeBytes, CallTimes allocateTimes,
    CallTimes freeTimes) {
  static PinnedStats of(Structs.PinnedStats from) {
    return new PinnedStats(
        Stat.of(from.allocations), Stat.of(from.allocatedBytes), Stat.of(from.activeRequests),
        Stat.of(from.activeBytes), CallTimes.of(from.allocateTimes), CallTimes.of(from.freeTimes));
  }
}
