// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import java.util.Set;

/** Safe debugging. Requests take the general path, so all calls are slower. */
public enum DebugOption {
  /**
   * Segments and live blocks are announced through NVTX, so that compute-sanitizer finds accesses outside of what was
   * requested.
   */
  NVTX(Constants.DEBUG_NVTX),
  /** When a free completes the block is filled with 0xFF. */
  POISON(Constants.DEBUG_POISON),
  /**
   * Each request is enlarged by 512 bytes, which are looked at when it is freed and by {@link Allocator#check}.
   */
  RED_ZONES(Constants.DEBUG_RED_ZONES);

  private final int number;

  DebugOption(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }

  static int bits(Set<DebugOption> chosen) {
    return chosen.stream().mapToInt(DebugOption::number).reduce(0, (a, b) -> a | b);
  }
}
