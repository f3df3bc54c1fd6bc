// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * One event of a trace.
 *
 * @param action what happened
 * @param device the device
 * @param address where
 * @param size bytes
 * @param stream the stream
 * @param pool the private pool, or {@link PoolId#DEFAULT}
 * @param timeMicros microseconds since 1970; -1 where the file does not say it
 * @param context the context; 0 where the file does not say it
 * @param costNanos nanoseconds that the driver's call took; -1 where the file does not say it
 * @param waitNanos those of them in which it waited for work of the device; -1 where the file does not say it
 * @param thread the system's number of the thread; 0 where the file does not say it
 * @param freedOn of a free: the stream that it is ordered on, the block's unless the file names another
 * @param driverContext the context that the program asked in; 0 for the device's primary one
 * @param entry how the program asked, a letter of docs/trace-format.md; 0 where the file does not say it
 */
public record TraceEvent(
    Action action, int device, long address, long size, long stream, PoolId pool, long timeMicros, long context,
    long costNanos, long waitNanos, long thread, long freedOn, long driverContext, char entry) {
  static TraceEvent of(Structs.TraceEvent from) {
    return new TraceEvent(
        Action.of(from.action), from.device, from.address, from.size, from.stream, PoolId.of(from.pool), from.timeUs,
        from.context, from.costNs, from.waitNs, from.thread, from.freedOn, from.driverContext, (char) from.entry);
  }
}
