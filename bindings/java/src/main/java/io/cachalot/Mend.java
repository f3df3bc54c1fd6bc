// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import java.util.Set;

/**
 * Defects of PyTorch that are kept by default because they change decisions; each mends one. {@code
 * docs/differences.md} describes them.
 */
public enum Mend {
  /** U5: fallback fails on a pool that is routed to or released. */
  FALLBACK_ERRORS(Constants.MEND_FALLBACK_ERRORS),
  /** U6: fallback never finds expandable memory. */
  FALLBACK_EXPANDABLE(Constants.MEND_FALLBACK_EXPANDABLE),
  /** U8 (2.11): out of memory at the first page settles on fabric. */
  HANDLE_TYPE(Constants.MEND_HANDLE_TYPE),
  /** U9: no second search after the cache was released. */
  SEARCH_AFTER_RELEASE(Constants.MEND_SEARCH_AFTER_RELEASE),
  /** U11: the ring loses its order when its size changes. */
  HISTORY_ORDER(Constants.MEND_HISTORY_ORDER),
  /** U16 (2.15): rejection although cached memory could be released. */
  REJECTION(Constants.MEND_REJECTION),
  /** U17 (2.15): too small a reserve fails every request. */
  RESERVE(Constants.MEND_RESERVE),
  /** U22: {@code max_split_size_mb} makes expandable segments grow without bound. */
  SPLIT_LIMIT(Constants.MEND_SPLIT_LIMIT);

  private final int number;

  Mend(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }

  static int bits(Set<Mend> chosen) {
    return chosen.stream().mapToInt(Mend::number).reduce(0, (a, b) -> a | b);
  }
}
