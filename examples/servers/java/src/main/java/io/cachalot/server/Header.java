// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import java.nio.ByteBuffer;

/** The first chunk of a PNG file: what its pixels are. */
record Header(int width, int height, int depth, int colour, boolean isInterlaced) {
  static final int BYTES = 13;
  /** The most pixels that are taken. */
  static final int MAX_PIXELS = 16 << 20;

  private static final int PALETTE = 3;
  /** Passes over an interlaced image: the first column and row of each, and the steps to the next. */
  private static final int[][] PASSES =
      {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  private static final int[][] ONE_PASS = {{0, 0, 1, 1}};

  static Header read(ByteBuffer content) throws MalformedException, TooLargeException {
    int width = content.getInt();
    int height = content.getInt();
    int depth = content.get();
    int colour = content.get();
    int compression = content.get();
    int filter = content.get();
    int interlace = content.get();
    boolean isKind = switch (colour) {
      case 0 -> depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
      case PALETTE -> depth == 1 || depth == 2 || depth == 4 || depth == 8;
      case 2, 4, 6 -> depth == 8 || depth == 16;
      default -> false;
    };
    if (width <= 0 || height <= 0 || !isKind || compression != 0 || filter != 0 || (interlace | 1) != 1) {
      throw new MalformedException("not a PNG image: its head is of no kind of image");
    }
    if ((long) width * height > MAX_PIXELS) {
      throw new TooLargeException(
          "the image has " + width + " x " + height + " pixels, at most " + MAX_PIXELS + " are taken");
    }
    return new Header(width, height, depth, colour, interlace == 1);
  }

  boolean isPalette() {
    return colour == PALETTE;
  }

  /** How many bytes all rows have, unpacked, each with the number of its filter. */
  long rowBytes() {
    int samples = switch (colour) {
      case 2 -> 3;
      case 4 -> 2;
      case 6 -> 4;
      default -> 1;
    };
    long total = 0;
    for (int[] pass : isInterlaced ? PASSES : ONE_PASS) {
      long columns = Math.max(0, (width - pass[0] + pass[2] - 1) / pass[2]);
      long rows = Math.max(0, (height - pass[1] + pass[3] - 1) / pass[3]);
      if (columns > 0) {
        total += rows * (1 + (columns * samples * depth + 7) / 8);
      }
    }
    return total;
  }
}
