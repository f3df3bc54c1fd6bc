// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import java.io.ByteArrayOutputStream;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.zip.CRC32;

/**
 * What a PNG file says of its pixels. All else in it is passed over unread, so that a mistake there is none of the
 * image, whatever a decoder thinks of it: ImageIO looks at no checksum, does not miss an end, and refuses images for
 * mistakes in what says nothing of their pixels.
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
  private Header header;
  private byte[] head;
  private byte[] palette;
  /** The compressed rows; null until some have come. */
  private ByteArrayOutputStream data;
  /** The kind of the chunk before. */
  private String previous = "";

  private Chunks(byte[] png) {
    file = ByteBuffer.wrap(png);
  }

  /**
   * The same image as a file with nothing but its pixels: every decoder takes it alike. Its size is looked at before
   * anything is unpacked.
   */
  static byte[] ofPixels(byte[] png) throws MalformedException, TooLargeException {
    try {
      return new Chunks(png).read();
    } catch (BufferUnderflowException end) {
      throw new MalformedException("not a PNG image: it ends too early");
    }
  }

  private byte[] read() throws MalformedException, TooLargeException {
    if (file.getLong() != SIGNATURE) {
      throw new MalformedException("not a PNG image: it does not begin as one");
    }
    while (!previous.equals("IEND")) {
      previous = next();
    }
    return rewrite();
  }

  /** Reads a chunk; its kind. */
  private String next() throws MalformedException, TooLargeException {
    int start = file.position();
    int length = file.getInt();
    byte[] letters = new byte[4];
    file.get(letters);
    String kind = new String(letters, StandardCharsets.ISO_8859_1);
    if (length < 0 || length > file.remaining() - CHECKSUM) {
      throw new BufferUnderflowException();
    }
    boolean isNeedless = (letters[0] & LOWER_CASE) != 0;
    if (!isNeedless || previous.isEmpty()) {
      check(kind, start, length);
      take(kind, file.slice(start + HEAD, length));
    }
    file.position(start + HEAD + length + CHECKSUM);
    return kind;
  }

  private void check(String kind, int start, int length) throws MalformedException {
    CRC32 sum = new CRC32();
    sum.update(file.array(), start + HEAD - kind.length(), kind.length() + length);
    if ((int) sum.getValue() != file.getInt(start + HEAD + length)) {
      throw new MalformedException("not a PNG image: a chunk " + kind + " has another checksum");
    }
    boolean isInPlace = switch (kind) {
      case "IHDR" -> length == Header.BYTES;
      case "PLTE" -> palette == null && data == null && length > 0 && length <= MAX_PALETTE && length % 3 == 0;
      case "IDAT" -> data == null || previous.equals("IDAT");
      case "IEND" -> data != null;
      default -> false;
    };
    if (!isInPlace || previous.isEmpty() != kind.equals("IHDR")) {
      throw new MalformedException("not a PNG image: a chunk " + kind + " of " + length + " bytes is out of place");
    }
  }

  private void take(String kind, ByteBuffer content) throws MalformedException, TooLargeException {
    switch (kind) {
      case "IHDR" -> {
        head = bytes(content);
        header = Header.read(content);
      }
      case "PLTE" -> palette = bytes(content);
      case "IDAT" -> {
        data = data == null ? new ByteArrayOutputStream() : data;
        data.writeBytes(bytes(content));
      }
      default -> { } // the end
    }
  }

  private static byte[] bytes(ByteBuffer content) {
    byte[] bytes = new byte[content.remaining()];
    content.duplicate().get(bytes);
    return bytes;
  }

  private byte[] rewrite() throws MalformedException {
    ByteArrayOutputStream kept = new ByteArrayOutputStream(file.limit());
    kept.writeBytes(ByteBuffer.allocate(Long.BYTES).putLong(SIGNATURE).array());
    write(kept, "IHDR", head);
    if (header.isPalette()) {
      if (palette == null) {
        throw new MalformedException("not a PNG image: it has no palette");
      }
      write(kept, "PLTE", Arrays.copyOf(palette, 3 << header.depth())); // what the palette does not have is black
    }
    write(kept, "IDAT", Rows.repack(data.toByteArray(), header.rowBytes()));
    write(kept, "IEND", new byte[0]);
    return kept.toByteArray();
  }

  private static void write(ByteArrayOutputStream kept, String kind, byte[] content) {
    byte[] letters = kind.getBytes(StandardCharsets.ISO_8859_1);
    CRC32 sum = new CRC32();
    sum.update(letters);
    sum.update(content);
    kept.writeBytes(ByteBuffer.allocate(Integer.BYTES).putInt(content.length).array());
    kept.writeBytes(letters);
    kept.writeBytes(content);
    kept.writeBytes(ByteBuffer.allocate(Integer.BYTES).putInt((int) sum.getValue()).array());
  }
}
