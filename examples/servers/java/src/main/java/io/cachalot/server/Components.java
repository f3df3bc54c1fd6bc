// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The rectangles of places of a map that are connected at sides or corners. */
final class Components {
  /** From 0 to 255: from where on a place of the map is text, and what a rectangle's text needs on average. */
  private static final int IS_TEXT = 77;
  private static final int IS_TEXT_ON_AVERAGE = 128;
  /** Smaller rectangles of the map are dirt. */
  private static final int LEAST_SIDE = 3;

  private final byte[] map;
  private final int width;
  private final int height;
  /** Places whose neighbours are to be looked at. */
  private int[] open = new int[64];
  private int openCount;

  /** The map is used up. */
  Components(byte[] map, int width, int height) {
    this.map = map;
    this.width = width;
    this.height = height;
  }

  /** In the order of their first places, row by row. */
  List<Rect> take() {
    List<Rect> found = new ArrayList<>();
    for (int start = 0; start < map.length; start++) {
      Rect rect = isText(start) ? take(start) : null;
      if (rect != null) {
        found.add(rect);
      }
    }
    return found;
  }

  private boolean isText(int place) {
    return (map[place] & 0xFF) >= IS_TEXT;
  }

  private void push(int place) {
    if (openCount == open.length) {
      open = Arrays.copyOf(open, openCount * 2);
    }
    open[openCount++] = place;
  }

  /** Takes a component out of the map; null if it is too small or too faint. */
  private Rect take(int start) {
    int left = start % width;
    int top = start / width;
    int right = left + 1;
    int bottom = top + 1;
    long count = 0;
    long sum = 0;
    push(start);
    while (openCount > 0) {
      int place = open[--openCount];
      if (!isText(place)) {
        continue; // taken already
      }
      int x = place % width;
      int y = place / width;
      count++;
      sum += map[place] & 0xFF;
      map[place] = 0;
      left = Math.min(left, x);
      right = Math.max(right, x + 1);
      bottom = Math.max(bottom, y + 1);
      pushNeighbours(x, y);
    }
    boolean isLarge = right - left >= LEAST_SIDE && bottom - top >= LEAST_SIDE;
    return isLarge && sum >= count * IS_TEXT_ON_AVERAGE ? new Rect(left, top, right, bottom) : null;
  }

  private void pushNeighbours(int x, int y) {
    for (int row = Math.max(y - 1, 0); row < Math.min(y + 2, height); row++) {
      for (int column = Math.max(x - 1, 0); column < Math.min(x + 2, width); column++) {
        if (isText(row * width + column)) {
          push(row * width + column);
        }
      }
    }
  }
}
