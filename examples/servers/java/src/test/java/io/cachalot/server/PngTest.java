// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.zip.CRC32;
import java.util.zip.DeflaterOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PngTest {
  private static final byte[] SIGNATURE = {(byte) 0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  /** Bytes of a chunk that are not its data. */
  private static final int AROUND = 12;

  /** Kinds of colour. */
  private static final int GREY = 0;
  private static final int PALETTE = 3;

  private static byte[] chunk(String kind, int... data) {
    ByteBuffer chunk = ByteBuffer.allocate(AROUND + data.length).putInt(data.length);
    chunk.put(kind.getBytes(StandardCharsets.ISO_8859_1));
    for (int each : data) {
      chunk.put((byte) each);
    }
    CRC32 sum = new CRC32();
    sum.update(chunk.array(), 4, 4 + data.length);
    return chunk.putInt((int) sum.getValue()).array();
  }

  /** Two by one pixels of 8 or 16 bits. */
  private static byte[] header(int bits, int colour) {
    return chunk("IHDR", 0, 0, 0, 2, 0, 0, 0, 1, bits, colour, 0, 0, 0);
  }

  private static byte[] data(int... row) throws IOException {
    ByteArrayOutputStream packed = new ByteArrayOutputStream();
    try (DeflaterOutputStream deflater = new DeflaterOutputStream(packed)) {
      deflater.write(0); // no filter
      for (int each : row) {
        deflater.write(each);
      }
    }
    byte[] bytes = packed.toByteArray();
    int[] values = new int[bytes.length];
    Arrays.setAll(values, i -> bytes[i]);
    return chunk("IDAT", values);
  }

  private static byte[] file(byte[]... chunks) throws IOException {
    ByteArrayOutputStream file = new ByteArrayOutputStream();
    file.write(SIGNATURE);
    for (byte[] chunk : chunks) {
      file.write(chunk);
    }
    return file.toByteArray();
  }

  private static byte[] damaged(byte[] chunk) {
    byte[] damaged = chunk.clone();
    damaged[damaged.length - 1] ^= 1;
    return damaged;
  }

  private static void assertPixels(byte[] file, int... expected) throws Exception {
    byte[] pixels = Png.decode(file).pixels();
    int[] values = new int[pixels.length];
    Arrays.setAll(values, i -> pixels[i] & 0xFF);
    assertArrayEquals(expected, values);
  }

  private static void assertMalformed(byte[] file) {
    String message = assertThrows(MalformedException.class, () -> Png.decode(file)).getMessage();
    assertTrue(message.startsWith("not a PNG image: "), message);
  }

  @Test
  void sixteenBitsLoseTheLowerEight() throws Exception {
    assertPixels(file(header(16, GREY), data(1, 200, 255, 100), chunk("IEND")), 1, 1, 1, 255, 255, 255);
  }

  @Test
  void aColourThatThePaletteHasNotIsBlack() throws Exception {
    assertPixels(file(header(8, PALETTE), chunk("PLTE", 1, 2, 3), data(0, 7), chunk("IEND")), 1, 2, 3, 0, 0, 0);
  }

  @Test
  void aMistakeInWhatSaysNothingOfThePixelsDoesNotMatter() throws Exception {
    byte[] gamma = chunk("gAMA", 1);
    byte[] transparency = damaged(chunk("tRNS", 1));
    assertPixels(file(header(8, PALETTE), gamma, chunk("PLTE", 1, 2, 3), transparency, data(0, 0), chunk("IEND")),
        1, 2, 3, 1, 2, 3);
  }

  @Test
  void whatIsBehindTheEndIsNotLookedAt() throws Exception {
    assertPixels(file(header(8, GREY), data(4, 5), chunk("IEND"), new byte[] {1, 2, 3}), 4, 4, 4, 5, 5, 5);
  }

  @Test
  void aDamagedChunkOfPixelsIsNoImage() throws Exception {
    assertMalformed(file(damaged(header(8, GREY)), data(4, 5), chunk("IEND")));
    assertMalformed(file(header(8, GREY), damaged(data(4, 5)), chunk("IEND")));
    assertMalformed(file(header(8, PALETTE), damaged(chunk("PLTE", 1, 2, 3)), data(0, 0), chunk("IEND")));
  }

  @Test
  void chunksThatAreOutOfPlaceAreNoImage() throws Exception {
    assertMalformed(file(data(4, 5), chunk("IEND")));
    assertMalformed(file(header(8, GREY), header(8, GREY), data(4, 5), chunk("IEND")));
    assertMalformed(file(header(8, GREY), data(4, 5), chunk("tEXt", 'a', 0), chunk("IDAT"), chunk("IEND")));
    assertMalformed(file(header(8, GREY), chunk("IEND")));
    assertMalformed(file(header(8, GREY), chunk("ABCD"), data(4, 5), chunk("IEND"))); // one that has to be known
    assertMalformed(file(header(8, PALETTE), chunk("PLTE", 1, 2), data(0, 0), chunk("IEND")));
  }

  @Test
  void anImageThatEndsTooEarlyIsNone() throws Exception {
    byte[] whole = file(header(8, GREY), data(4, 5), chunk("IEND"));
    for (int length = 0; length < whole.length; length++) {
      assertMalformed(Arrays.copyOf(whole, length));
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {0x7FFFFFFF, 0x7FFFFFF0, 0x80000000, 0xFFFFFFFF})
  void aLengthBeyondTheFileIsNoImage(int length) throws Exception {
    byte[] file = file(header(8, GREY), data(4, 5), chunk("IEND"));
    ByteBuffer.wrap(file).putInt(SIGNATURE.length + AROUND + 13, length);
    assertMalformed(file);
  }
}
