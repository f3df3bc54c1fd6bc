// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/**
 * The texts of a model's metadata, from its file. ONNX Runtime's Java package makes strings of them by
 * {@code NewStringUTF}, for which a character above U+FFFF has another spelling: with one the end of the text is lost.
 */
final class Metadata {
  /** Numbers of ONNX's messages: {@code ModelProto.metadata_props}, and key and value in it. */
  private static final int PROPERTIES = 14;
  private static final int KEY = 1;
  private static final int VALUE = 2;

  /** How protobuf writes a field. */
  private static final int NUMBER = 0;
  private static final int EIGHT_BYTES = 1;
  private static final int BYTES = 2;
  private static final int FOUR_BYTES = 5;

  private Metadata() {}

  /** By key. */
  static Map<String, String> of(Path model) throws IOException {
    Map<String, String> texts = new HashMap<>();
    try (FileChannel file = FileChannel.open(model)) {
      ByteBuffer message = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size());
      while (message.hasRemaining()) {
        long field = number(message);
        ByteBuffer value = value(message, (int) field & 7);
        if (field >> 3 == PROPERTIES) {
          String[] pair = pair(value);
          texts.put(pair[0], pair[1]);
        }
      }
    } catch (BufferUnderflowException | IllegalArgumentException malformed) {
      throw new IOException(model + ": it is no ONNX model");
    }
    return texts;
  }

  private static String[] pair(ByteBuffer message) {
    String[] pair = {"", ""};
    while (message.hasRemaining()) {
      long field = number(message);
      ByteBuffer value = value(message, (int) field & 7);
      if (field >> 3 == KEY || field >> 3 == VALUE) {
        pair[field >> 3 == KEY ? 0 : 1] = StandardCharsets.UTF_8.decode(value).toString();
      }
    }
    return pair;
  }

  /** Seven bits a byte, the lowest first. */
  private static long number(ByteBuffer message) {
    long number = 0;
    for (int shift = 0; shift < Long.SIZE; shift += 7) {
      byte next = message.get();
      number |= (next & 0x7FL) << shift;
      if (next >= 0) {
        return number;
      }
    }
    throw new IllegalArgumentException();
  }

  /** The bytes of a field, whose end becomes the message's position. */
  private static ByteBuffer value(ByteBuffer message, int kind) {
    int start = message.position();
    long length = switch (kind) {
      case NUMBER -> {
        number(message);
        yield message.position() - start;
      }
      case EIGHT_BYTES -> Long.BYTES;
      case FOUR_BYTES -> Integer.BYTES;
      case BYTES -> {
        long given = number(message);
        start = message.position();
        yield given;
      }
      default -> throw new IllegalArgumentException();
    };
    if (length < 0 || length > message.limit() - start) {
      throw new IllegalArgumentException();
    }
    message.position(start + (int) length);
    return message.slice(start, (int) length);
  }
}
