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
 */
public record TraceEvent(
    Action action, int device, long address, long size, long stream, PoolId pool, long timeMicros, long context) {
  static TraceEvent of(Structs.TraceEvent from) {
    return new TraceEvent(
        Action.of(from.action), from.device, from.address, from.size, from.stream, PoolId.of(from.pool), from.timeUs,
        from.context);
  }
}
