// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

/**
 * Two neighbours, and how far the second one counts.
 *
 * @param share in 256ths
 */
record Between(int first, int second, int share) {
  /** Where place {@code to} of {@code wanted} lies in {@code old} places that begin at {@code start}. */
  static Between of(int to, int old, int wanted, int start) {
    long middle = (2L * to + 1) * old * 256 / (2L * wanted);
    long place = Math.min(Math.max(middle - 128, 0), (old - 1) * 256L);
    int first = (int) (place / 256);
    return new Between(start + first, start + Math.min(first + 1, old - 1), (int) (place % 256));
  }

  int mix(int one, int other) {
    return one * (256 - share) + other * share;
  }
}
