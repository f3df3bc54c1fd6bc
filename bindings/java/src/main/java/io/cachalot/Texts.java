// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** Texts that the library writes like snprintf. */
final class Texts {
  private Texts() {}

  /** A text for C, which would end at a NUL. */
  static long toC(Memory memory, String text) {
    if (text != null && text.indexOf('\0') >= 0) {
      throw new IllegalArgumentException("a text contains a NUL");
    }
    return memory.text(text);
  }

  /** A function that takes these last. */
  @FunctionalInterface
  interface Write {
    int call(long buffer, long capacity, long outLength, long error);
  }

  /** Asks again with more room until the text fits, which may grow in between. */
  static String of(Scratch scratch, Write write) {
    int capacity = 4096;
    while (true) {
      try (Memory memory = new Memory()) {
        ByteBuffer text = memory.allocate(capacity);
        scratch.check(write.call(Memory.addressOf(text), capacity, scratch.out, scratch.error));
        long length = scratch.outLong();
        if (length < capacity) {
          return StandardCharsets.UTF_8.decode(text.slice(0, (int) length)).toString();
        }
        capacity = Math.toIntExact(length + 1024);
      }
    }
  }
}
