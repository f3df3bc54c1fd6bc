// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import java.io.ByteArrayOutputStream;
import java.util.zip.DataFormatException;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** The compressed rows of a PNG file. */
final class Rows {
  private static final int PIECE = 1 << 16;
  /** Of the zlib format, before what is compressed. */
  private static final int HEAD = 2;

  private Rows() {}

  /** So many bytes of them. Bytes behind these, their checksum too, are ignored. */
  static byte[] repack(byte[] data, long count) throws MalformedException {
    Inflater unpacker = new Inflater(true);
    Deflater packer = new Deflater(Deflater.BEST_SPEED);
    try {
      checkHead(data);
      unpacker.setInput(data, HEAD, data.length - HEAD);
      ByteArrayOutputStream packed = new ByteArrayOutputStream();
      byte[] piece = new byte[PIECE];
      for (long left = count; left > 0;) {
        int size = unpacker.inflate(piece, 0, (int) Math.min(left, PIECE));
        if (size == 0) {
          throw new DataFormatException("they are not all there");
        }
        left -= size;
        packer.setInput(piece, 0, size);
        if (left == 0) {
          packer.finish();
        }
        drain(packer, packed);
      }
      return packed.toByteArray();
    } catch (DataFormatException malformed) {
      throw new MalformedException("not a PNG image: its pixels: " + malformed.getMessage());
    } finally {
      unpacker.end();
      packer.end();
    }
  }

  /** Deflate, a window of 32 KiB at most, no dictionary, and the two bytes' own checksum. */
  private static void checkHead(byte[] data) throws DataFormatException {
    boolean isZlib = data.length >= HEAD && (data[0] & 0x8F) == 8 && (data[1] & 0x20) == 0
        && ((data[0] & 0xFF) << 8 | data[1] & 0xFF) % 31 == 0;
    if (!isZlib) {
      throw new DataFormatException("they do not begin as zlib's");
    }
  }

  private static void drain(Deflater packer, ByteArrayOutputStream packed) {
    byte[] piece = new byte[PIECE];
    int size = packer.deflate(piece);
    while (size > 0) {
      packed.write(piece, 0, size);
      size = packer.deflate(piece);
    }
  }
}
