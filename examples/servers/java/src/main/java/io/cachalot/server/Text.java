// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

/**
 * What a rectangle of the image says.
 *
 * @param score how sure the model is, in hundredths
 */
record Text(String text, int score) {
  /** Text of less is none. */
  private static final int LEAST_SCORE = 50;

  boolean isText() {
    return score >= LEAST_SCORE && !text.codePoints().allMatch(Text::isSpace);
  }

  /** Spaces that do not break lines are spaces too. */
  private static boolean isSpace(int character) {
    return Character.isWhitespace(character) || Character.isSpaceChar(character);
  }
}
