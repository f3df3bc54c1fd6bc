// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * What is known of a live block.
 *
 * @param address its first byte
 * @param size bytes of the block
 * @param requested bytes that were requested
 * @param stream the stream that it was handed out for
 * @param pool its private pool, or {@link PoolId#DEFAULT}
 * @param device its device
 * @param uncached whether the request went to the driver because caching was off
 * @param fromSource whether the source of its pool gave its memory ({@link PoolOptions#source}); else the driver did
 */
public record BlockInfo(
    long address, long size, long requested, long stream, PoolId pool, int device, boolean uncached,
    boolean fromSource) {
  static BlockInfo of(Structs.Block from) {
    return new BlockInfo(
        from.address, from.size, from.requested, from.stream, PoolId.of(from.pool), from.device, from.uncached != 0,
        from.fromSource != 0);
  }
}
