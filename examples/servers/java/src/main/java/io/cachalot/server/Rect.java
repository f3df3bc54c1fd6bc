// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

/** A rectangle: the first column and row, and those behind the last. */
record Rect(int left, int top, int right, int bottom) {
  int width() {
    return right - left;
  }

  int height() {
    return bottom - top;
  }
}
