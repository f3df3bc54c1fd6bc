// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * Bytes reserved by one private pool (since 2.13). Rows stay when their pool goes.
 *
 * @param pool the pool
 * @param reservedBytes its bytes
 */
public record PoolStats(PoolId pool, StatArray reservedBytes) {
  static PoolStats of(Structs.PoolStats from) {
    return new PoolStats(PoolId.of(from.pool), StatArray.of(from.reservedBytes));
  }
}
