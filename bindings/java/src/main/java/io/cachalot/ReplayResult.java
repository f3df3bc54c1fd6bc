// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * What came of a replay. Bytes where nothing else is said.
 *
 * @param events events that were replayed or compared
 * @param allocations requests made
 * @param outOfMemory those that failed as out of memory
 * @param driverAllocations driver calls that obtained memory
 * @param driverFrees driver calls that gave it back
 * @param segments segments at the end, expandable ones included
 * @param segmentsPeak the most there were at a time
 * @param peakRequested the most that was requested, of all devices
 * @param peakAllocated the most that was handed out
 * @param peakReserved the most that was reserved
 * @param differingEvents with {@link ReplayOptions#expect}: events that differ
 * @param firstDifference the index of the first of them in the trace; -1: none
 * @param expected what was expected there
 * @param actual what came
 * @param peakDeviceBytes the most that the driver had handed out of one device; with PyTorch's decisions and without a
 *     memory fraction the replay is the same on a device of any size from this one up to its own
 */
public record ReplayResult(
    long events, long allocations, long outOfMemory, long driverAllocations, long driverFrees, long segments, long
    segmentsPeak, long peakRequested, long peakAllocated, long peakReserved, long differingEvents, long
    firstDifference, String expected, String actual, long peakDeviceBytes) {
  static ReplayResult of(Structs.ReplayResult from) {
    return new ReplayResult(
        from.events, from.allocations, from.outOfMemory, from.driverAllocations, from.driverFrees, from.segments,
        from.segmentsPeak, from.peakRequested, from.peakAllocated, from.peakReserved, from.differingEvents,
        from.firstDifference, from.expected, from.actual, from.peakDeviceBytes);
  }
}
