// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import ai.onnxruntime.OrtException;
import java.nio.FloatBuffer;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/** Where text is: the detection model's map, and rectangles of what is connected in it. */
final class Detection {
  /** The longer side of what the model sees, at most. */
  private static final int LONGEST = 960;
  /** The model halves each side five times. */
  private static final int UNIT = 32;
  private static final Comparator<Rect> ORDER = Comparator.comparingInt(Rect::top)
      .thenComparingInt(Rect::left)
      .thenComparingInt(Rect::bottom)
      .thenComparingInt(Rect::right);

  private final Pool pool;

  Detection(Pool pool) {
    this.pool = pool;
  }

  /** Rectangles of the image, from top to bottom, of one height from left to right. */
  List<Rect> find(Image image) throws ExhaustedException, OrtException {
    int longest = Math.max(image.width(), image.height());
    int width = seen(image.width(), longest);
    int height = seen(image.height(), longest);
    FloatBuffer planes = Planes.of(image.resize(image.all(), width, height));
    byte[] map = pool.run(planes, width, height, (shape, probabilities) -> {
      if (!Arrays.equals(shape, new long[] {1, 1, height, width})) {
        throw new IllegalStateException("the detection model gave a map of " + Arrays.toString(shape));
      }
      return bytes(probabilities);
    });
    return new Components(map, width, height).take().stream()
        .map(rect -> toImage(grow(rect, width, height), width, height, image))
        .sorted(ORDER)
        .toList();
  }

  private static byte[] bytes(FloatBuffer probabilities) {
    byte[] map = new byte[probabilities.remaining()];
    for (int i = 0; i < map.length; i++) {
      map[i] = (byte) Math.min((int) (probabilities.get(i) * 255f + 0.5f), 255);
    }
    return map;
  }

  /** A side in multiples of 32, the longer one at most 960. */
  private static int seen(int side, int longest) {
    long shrunk = longest <= LONGEST ? side : ((long) side * LONGEST + longest / 2) / longest;
    return (int) Math.max(UNIT, (shrunk + UNIT / 2) / UNIT * UNIT);
  }

  /** The model marks the middle of a line: its rectangle grows by 1.6 times its area over its circumference. */
  private static Rect grow(Rect rect, int width, int height) {
    int by = rect.width() * rect.height() * 4 / (5 * (rect.width() + rect.height()));
    return new Rect(
        Math.max(rect.left() - by, 0), Math.max(rect.top() - by, 0),
        Math.min(rect.right() + by, width), Math.min(rect.bottom() + by, height));
  }

  /** From places of the map to those of the image; nothing of the rectangle is lost. */
  private static Rect toImage(Rect rect, int width, int height, Image image) {
    return new Rect(
        (int) ((long) rect.left() * image.width() / width),
        (int) ((long) rect.top() * image.height() / height),
        (int) (((long) rect.right() * image.width() + width - 1) / width),
        (int) (((long) rect.bottom() * image.height() + height - 1) / height));
  }
}
