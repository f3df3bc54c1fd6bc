// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * One event of the history.
 *
 * @param action what happened
 * @param device the device
 * @param address where; of {@link Action#OOM} the device's free bytes
 * @param size bytes
 * @param stream the stream
 * @param pool the private pool, or {@link PoolId#DEFAULT}
 * @param context the context that is kept for it; 0: none
 * @param timeMicros microseconds since 1970
 * @param metadata the thread's text ({@link Cachalot#setMetadata}), or that of an annotation
 * @param internalMetadata the allocator's own text (since 2.15)
 */
public record TraceEntry(
    Action action, int device, long address, long size, long stream, PoolId pool, long context, long timeMicros,
    String metadata, String internalMetadata) {
  static TraceEntry of(Structs.TraceEntry from) {
    return new TraceEntry(
        Action.of(from.action), from.device, from.address, from.size, from.stream, PoolId.of(from.pool), from.context,
        from.timeUs, from.metadata, from.internalMetadata);
  }
}
