// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Callbacks;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;

/** Java's streams for the library's callbacks; what a stream throws is thrown to the caller again. */
final class Streams {
  private Throwable failure;

  Callbacks.ReadFn from(InputStream stream) {
    byte[] bytes = new byte[8192];
    return buffer -> {
      try {
        int read = stream.read(bytes, 0, Math.min(bytes.length, buffer.remaining()));
        if (read > 0) {
          buffer.put(bytes, 0, read);
        }
        return Math.max(read, 0);
      } catch (Throwable thrown) {
        failure = thrown;
      }
      return -1;
    };
  }

  Callbacks.WriteFn to(OutputStream stream) {
    return data -> {
      try {
        write(stream, data);
        return 0;
      } catch (Throwable thrown) {
        failure = thrown;
      }
      return 1;
    };
  }

  static void write(OutputStream stream, ByteBuffer data) throws IOException {
    byte[] bytes = new byte[Math.min(data.remaining(), 8192)];
    while (data.hasRemaining()) {
      int size = Math.min(bytes.length, data.remaining());
      data.get(bytes, 0, size);
      stream.write(bytes, 0, size);
    }
  }

  /** Throws what the library's answer to a failed callback stands for. */
  void check(Scratch scratch, int status) throws IOException {
    Errors.<IOException>rethrow(failure);
    scratch.check(status);
  }
}
