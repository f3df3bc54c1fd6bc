// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.golden;

import io.cachalot.PoolId;
import io.cachalot.Route;

/** The words of an operation behind its first. */
final class Words {
  private String left;

  Words(String left) {
    this.left = left;
  }

  /** null if there is none. */
  String maybe() {
    left = left.stripLeading();
    if (left.isEmpty()) {
      return null;
    }
    int end = left.indexOf(' ') < 0 ? left.length() : left.indexOf(' ');
    String word = left.substring(0, end);
    left = left.substring(end);
    return word;
  }

  String word() {
    String word = maybe();
    if (word == null) {
      throw new IllegalArgumentException("a word is missing");
    }
    return word;
  }

  long number() {
    return Long.parseUnsignedLong(word());
  }

  long signed() {
    return Long.parseLong(word());
  }

  long numberOr(long otherwise) {
    String word = maybe();
    return word == null ? otherwise : Long.parseLong(word);
  }

  double real() {
    String word = word();
    return word.equals("nan") ? Double.NaN : Double.parseDouble(word);
  }

  long hex() {
    return hex(word());
  }

  static long hex(String word) {
    return Long.parseUnsignedLong(word.startsWith("0x") ? word.substring(2) : word, 16);
  }

  /** N is (0, N), gN is (N, 0). */
  PoolId pool() {
    String word = word();
    return word.startsWith("g") ? PoolId.ofGraph(Long.parseLong(word.substring(1)))
        : PoolId.ofUser(Long.parseLong(word));
  }

  /** What may stand behind a pool that requests are routed to. */
  Route route() {
    String which = maybe();
    return which == null ? Route.all() : which.equals("never") ? Route.none() : Route.stream(hex(which));
  }

  String rest() {
    return left.stripLeading();
  }
}
