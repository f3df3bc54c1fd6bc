// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import java.io.ByteArrayOutputStream;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32;

/**
 * The chunks of a PNG file that say its pixels, which is all that ImageIO gets to see: it looks at no checksum, does
 * not miss an end, and refuses images for mistakes in what says nothing of their pixels.
 */
final class Chunks {
  private static final long SIGNATURE = 0x89504E470D0A1A0AL;
  /** Length and kind before the data, and the checksum behind it. */
  private static final int HEAD = 8;
  private static final int CHECKSUM = 4;
  private static final int MAX_PALETTE = 256 * 3;
  /** Of the kind's first letter: whoever does not know the chunk can do without. */
  private static final int LOWER_CASE = 0x20;

  private final ByteBuffer file;
  private final ByteArrayOutputStream kept;
  /** The kind of the chunk before. */
  private String previous = "";
  /** Whether one with pixels has come. */
  private boolean hasData;

  private Chunks(byte[] png) {
    file = ByteBuffer.wrap(png);
    kept = new ByteArrayOutputStream(png.length);
  }

  /** The file with nothing else. What is behind its end is not looked at. */
  static byte[] ofPixels(byte[] png) throws MalformedException {
    try {
      return new Chunks(png).read();
    } catch (BufferUnderflowException end) {
      throw new MalformedException("not a PNG image: it ends too early");
    }
  }

  private byte[] read() throws MalformedException {
    if (file.getLong() != SIGNATURE) {
      throw new MalformedException("not a PNG image: it does not begin as one");
    }
    kept.write(file.array(), 0, file.position());
    while (!previous.equals("IEND")) {
      previous = next();
    }
    return kept.toByteArray();
  }

  /** Reads a chunk, and keeps it if it says pixels; its kind. */
  private String next() throws MalformedException {
    int start = file.position();
    int length = file.getInt();
    byte[] letters = new byte[4];
    file.get(letters);
    String kind = new String(letters, StandardCharsets.ISO_8859_1);
    if (length < 0 || length > file.remaining() - CHECKSUM) {
      throw new BufferUnderflowException();
    }
    file.position(start + HEAD + length + CHECKSUM);
    if ((letters[0] & LOWER_CASE) == 0) {
      check(kind, start, length);
      kept.write(file.array(), start, HEAD + length + CHECKSUM);
    }
    return kind;
  }

  private void check(String kind, int start, int length) throws MalformedException {
    CRC32 sum = new CRC32();
    sum.update(file.array(), start + HEAD - kind.length(), kind.length() + length);
    if ((int) sum.getValue() != file.getInt(start + HEAD + length)) {
      throw new MalformedException("not a PNG image: a chunk " + kind + " has another checksum");
    }
    boolean isInPlace = switch (kind) {
      case "IHDR" -> true;
      case "PLTE" -> length > 0 && length <= MAX_PALETTE && length % 3 == 0;
      case "IDAT" -> !hasData || previous.equals("IDAT");
      case "IEND" -> hasData;
      default -> false;
    };
    if (!isInPlace || previous.isEmpty() != kind.equals("IHDR")) {
      throw new MalformedException("not a PNG image: a chunk " + kind + " of " + length + " bytes is out of place");
    }
    hasData |= kind.equals("IDAT");
  }
}
