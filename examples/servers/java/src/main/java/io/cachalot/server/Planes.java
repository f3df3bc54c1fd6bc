// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;

/** What the models take: blue, green, red, one plane after the other, each value from -1 to 1. */
final class Planes {
  private static final float[] VALUES = new float[256];

  static {
    for (int value = 0; value < VALUES.length; value++) {
      VALUES[value] = (value / 255f - 0.5f) / 0.5f;
    }
  }

  /**
   * Memory outside of Java's, which ONNX Runtime reads in place. It goes back only when the collector finds it, so
   * each thread keeps its own instead of making ever new ones.
   */
  private static final ThreadLocal<FloatBuffer> BUFFERS = new ThreadLocal<>();

  private Planes() {}

  /** Those of an image, until the thread's next call. */
  static FloatBuffer of(Image image) {
    byte[] pixels = image.pixels();
    FloatBuffer planes = buffer(pixels.length);
    for (int channel = 2; channel >= 0; channel--) {
      for (int i = channel; i < pixels.length; i += 3) {
        planes.put(VALUES[pixels[i] & 0xFF]);
      }
    }
    return planes.flip();
  }

  private static FloatBuffer buffer(int size) {
    FloatBuffer buffer = BUFFERS.get();
    if (buffer == null || buffer.capacity() < size) {
      buffer = ByteBuffer.allocateDirect(size * Float.BYTES).order(ByteOrder.nativeOrder()).asFloatBuffer();
      BUFFERS.set(buffer);
    }
    return buffer.clear();
  }
}
