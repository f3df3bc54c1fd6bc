// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import java.awt.image.BufferedImage;
import java.awt.image.ColorModel;
import java.awt.image.IndexColorModel;
import java.awt.image.Raster;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import javax.imageio.ImageIO;
import javax.imageio.ImageReader;
import javax.imageio.stream.ImageInputStream;
import javax.imageio.stream.MemoryCacheImageInputStream;

/** Decodes images. Rasters are read, since {@code BufferedImage.getRGB} changes grey by a gamma. */
final class Png {
  /** Pixels that are converted at a time, since a row may have all that an image can have. */
  private static final int PIECE = 4096;

  private Png() {}

  static Image decode(byte[] bytes) throws MalformedException, TooLargeException {
    byte[] pixels = Chunks.ofPixels(bytes);
    // Only this format's: ImageIO's own choice would take others too.
    ImageReader reader = ImageIO.getImageReadersByFormatName("png").next();
    try (ImageInputStream stream = new MemoryCacheImageInputStream(new ByteArrayInputStream(pixels))) {
      reader.setInput(stream, true, true);
      return convert(reader.read(0));
    } catch (IOException | RuntimeException malformed) { // it throws either, by what is wrong
      if (malformed.getCause() instanceof Error error) { // for want of Java's memory, say
        throw error;
      }
      throw new MalformedException("not a PNG image: " + malformed.getMessage());
    } finally {
      reader.dispose();
    }
  }

  private static Image convert(BufferedImage decoded) {
    int width = decoded.getWidth();
    int height = decoded.getHeight();
    int[] palette = palette(decoded.getColorModel());
    Raster raster = decoded.getRaster();
    int bands = raster.getNumBands();
    int excess = Math.max(raster.getSampleModel().getSampleSize(0) - 8, 0);
    int[] samples = new int[Math.min(width, PIECE) * bands];
    byte[] pixels = new byte[width * height * 3];
    int to = 0;
    for (int y = 0; y < height; y++) {
      for (int x = 0; x < width; x += PIECE) {
        int count = Math.min(width - x, PIECE);
        raster.getPixels(x, y, count, 1, samples);
        for (int from = 0; from < count * bands; from += bands, to += 3) {
          put(pixels, to, palette == null ? color(samples, from, bands, excess) : palette[samples[from]]);
        }
      }
    }
    return new Image(width, height, pixels);
  }

  private static void put(byte[] pixels, int to, int color) {
    pixels[to] = (byte) (color >> 16);
    pixels[to + 1] = (byte) (color >> 8);
    pixels[to + 2] = (byte) color;
  }

  /** Grey is repeated; alpha, the last of two or four samples, is dropped. */
  private static int color(int[] samples, int from, int bands, int excess) {
    int red = samples[from] >> excess;
    if (bands < 3) {
      return red * 0x010101;
    }
    return red << 16 | samples[from + 1] >> excess << 8 | samples[from + 2] >> excess;
  }

  /** The colours of an image that has numbers of them, as grey of less than 8 bits does too; else null. */
  private static int[] palette(ColorModel model) {
    if (!(model instanceof IndexColorModel)) {
      return null;
    }
    int[] palette = new int[256]; // a number beyond the last is black
    ((IndexColorModel) model).getRGBs(palette);
    return palette;
  }
}
