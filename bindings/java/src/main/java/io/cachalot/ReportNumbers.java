// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;
import java.util.OptionalLong;

/**
 * The numbers of a report. Bytes where nothing else is said.
 *
 * @param device the device
 * @param outcome what would become of the request now
 * @param requested the request as asked; 0 without one
 * @param size the block that it needs
 * @param segmentSize the segment that the driver would be asked for
 * @param stream its stream
 * @param pool its pool
 * @param isSmall whether it needs a small block
 * @param deviceTotal what the device has
 * @param deviceFree what of it is free
 * @param limit the allocator's limit
 * @param reserved obtained from the driver
 * @param allocated live blocks
 * @param pending blocks that were freed and wait
 * @param cached free blocks
 * @param largestFreeBlock the largest of them
 * @param releasable what a trim could give back
 * @param asleep what pools that sleep need to wake; it is not reserved
 */
public record ReportNumbers(
    int device, Outcome outcome, long requested, long size, long segmentSize, long stream, PoolId pool, boolean
    isSmall, long deviceTotal, long deviceFree, OptionalLong limit, long reserved, long allocated, long pending, long
    cached, long largestFreeBlock, long releasable, long asleep) {
  static ReportNumbers of(Structs.ReportNumbers from) {
    return new ReportNumbers(
        from.device, Outcome.of(from.outcome), from.requested, from.size, from.segmentSize, from.stream,
        PoolId.of(from.pool), from.isSmall != 0, from.deviceTotal, from.deviceFree, from.limit == 0 ?
        OptionalLong.empty() : OptionalLong.of(from.limit), from.reserved, from.allocated, from.pending, from.cached,
        from.largestFreeBlock, from.releasable, from.asleep);
  }
}
