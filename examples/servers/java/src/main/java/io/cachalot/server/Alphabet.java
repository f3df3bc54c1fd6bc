// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.List;

/** The recognition model's characters: number 0 is none, the last one a space. */
final class Alphabet {
  private final List<String> characters = new ArrayList<>();

  /** One character a line, as the model's metadata {@code character} has them. */
  Alphabet(String lines) {
    characters.add("");
    characters.addAll(List.of(lines.split("\n", -1)));
    characters.add(" ");
  }

  int size() {
    return characters.size();
  }

  /** A character for each place of the line, of which equal neighbours are one. */
  Text decode(int places, FloatBuffer probabilities) {
    StringBuilder text = new StringBuilder();
    float[] row = new float[size()];
    double sum = 0;
    int kept = 0;
    int last = 0;
    for (int place = 0; place < places; place++) {
      probabilities.get(row);
      int best = firstHighest(row);
      if (best != 0 && best != last) {
        text.append(characters.get(best));
        sum += row[best];
        kept++;
      }
      last = best;
    }
    return new Text(text.toString(), kept == 0 ? 0 : (int) (sum / kept * 100 + 0.5));
  }

  private static int firstHighest(float[] row) {
    int best = 0;
    for (int i = 1; i < row.length; i++) {
      if (row[i] > row[best]) {
        best = i;
      }
    }
    return best;
  }
}
