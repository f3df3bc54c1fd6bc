// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * Names a private pool: exactly one half is not 0. Pools of users are (0, k), those of graphs (k, 0).
 *
 * @param first the number of a graph's pool, else 0
 * @param second the number of a user's pool, else 0
 */
public record PoolId(long first, long second) {
  /** Memory that belongs to no private pool. */
  public static final PoolId DEFAULT = new PoolId(0, 0);

  /**
   * A user's pool.
   *
   * @param number its number, not 0
   * @return (0, number)
   */
  public static PoolId ofUser(long number) {
    return new PoolId(0, number);
  }

  /**
   * A graph's pool.
   *
   * @param number its number, not 0
   * @return (number, 0)
   */
  public static PoolId ofGraph(long number) {
    return new PoolId(number, 0);
  }

  Structs.PoolId toC() {
    Structs.PoolId id = new Structs.PoolId();
    id.first = first;
    id.second = second;
    return id;
  }

  static PoolId of(Structs.PoolId from) {
    return new PoolId(from.first, from.second);
  }
}
