// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import java.util.Set;

/** What a private pool is like. */
public enum PoolFlag {
  /** Its cached blocks serve requests of others that would fail. */
  USE_ON_OOM(Constants.POOL_USE_ON_OOM),
  /** Its blocks are never split. */
  NO_SPLIT(Constants.POOL_NO_SPLIT),
  /** Its memory stays where it is, also once it was released: for memory that others have registered. */
  PINNED(Constants.POOL_PINNED),
  /** Each of its blocks is an allocation of the driver; see {@link PoolKey#setWholeBlocks}. */
  WHOLE_BLOCKS(Constants.POOL_WHOLE_BLOCKS);

  private final int number;

  PoolFlag(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }

  static int bits(Set<PoolFlag> chosen) {
    return chosen.stream().mapToInt(PoolFlag::number).reduce(0, (a, b) -> a | b);
  }
}
