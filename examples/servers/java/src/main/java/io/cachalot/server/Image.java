// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

/**
 * 8 bits for each of red, green and blue, row by row. All arithmetic is of integers, so that every language gets
 * the same.
 */
record Image(int width, int height, byte[] pixels) {
  Rect all() {
    return new Rect(0, 0, width, height);
  }

  /**
   * A part of the image in another size, bilinear: each new pixel's middle lies between four old ones, at a 256th
   * of a pixel.
   */
  Image resize(Rect part, int newWidth, int newHeight) {
    Between[] columns = new Between[newWidth];
    for (int x = 0; x < newWidth; x++) {
      columns[x] = Between.of(x, part.width(), newWidth, part.left());
    }
    byte[] resized = new byte[newWidth * newHeight * 3];
    int to = 0;
    for (int y = 0; y < newHeight; y++) {
      Between row = Between.of(y, part.height(), newHeight, part.top());
      for (Between column : columns) {
        for (int channel = 0; channel < 3; channel++) {
          int upper = column.mix(at(column.first(), row.first(), channel), at(column.second(), row.first(), channel));
          int lower = column.mix(at(column.first(), row.second(), channel), at(column.second(), row.second(), channel));
          resized[to++] = (byte) ((row.mix(upper, lower) + 32768) >> 16);
        }
      }
    }
    return new Image(newWidth, newHeight, resized);
  }

  private int at(int x, int y, int channel) {
    return pixels[(y * width + x) * 3 + channel] & 0xFF;
  }
}
