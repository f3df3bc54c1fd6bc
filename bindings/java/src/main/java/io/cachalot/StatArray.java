// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * A statistic by kind of pool: small blocks are those of requests up to 1 MiB.
 *
 * @param all both kinds
 * @param smallPool small blocks
 * @param largePool large blocks
 */
public record StatArray(Stat all, Stat smallPool, Stat largePool) {
  Structs.StatArray toC() {
    Structs.StatArray array = new Structs.StatArray();
    array.all = all.toC();
    array.smallPool = smallPool.toC();
    array.largePool = largePool.toC();
    return array;
  }

  static StatArray of(Structs.StatArray from) {
    return new StatArray(Stat.of(from.all), Stat.of(from.smallPool), Stat.of(from.largePool));
  }
}
