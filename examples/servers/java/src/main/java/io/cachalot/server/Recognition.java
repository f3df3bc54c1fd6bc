// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import ai.onnxruntime.OrtException;
import java.io.IOException;
import java.nio.FloatBuffer;
import java.util.Arrays;

/** What text says: the recognition model's characters for a rectangle of the image. */
final class Recognition {
  /** The height of what the model sees, and the unit and bounds of its width. */
  private static final int HEIGHT = 48;
  private static final int UNIT = 8;
  private static final int NARROWEST = 16;
  private static final int WIDEST = 2048;

  private final Pool pool;
  private final Alphabet alphabet;

  Recognition(Pool pool) throws IOException, OrtException {
    this.pool = pool;
    alphabet = new Alphabet(pool.metadata("character"));
  }

  Text read(Image image, Rect rect) throws ExhaustedException, OrtException {
    long wide = ((long) rect.width() * HEIGHT + rect.height() - 1) / rect.height();
    int width = (int) Math.min(Math.max((wide + UNIT - 1) / UNIT * UNIT, NARROWEST), WIDEST);
    FloatBuffer planes = Planes.of(image.resize(rect, width, HEIGHT));
    return pool.run(planes, width, HEIGHT, (shape, probabilities) -> {
      if (shape.length != 3 || shape[0] != 1 || shape[2] != alphabet.size()) {
        throw new IllegalStateException("the recognition model gave " + Arrays.toString(shape) + ", not "
            + alphabet.size() + " characters");
      }
      return alphabet.decode((int) shape[1], probabilities);
    });
  }
}
