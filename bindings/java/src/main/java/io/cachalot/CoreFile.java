// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The file of the library that the glue calls. The system takes a library that the process has already, by its name
 * without a folder: whoever loaded it before, another class loader or a program in C, shares it.
 */
final class CoreFile {
  private CoreFile() {}

  /**
   * Where the library that is called comes from.
   *
   * @param place where it was looked for, in words
   * @param expected the file there; null or absent: the system has looked for it
   */
  static String place(String place, Path expected) {
    try {
      String used = mappedAt(Memory.codeAddress());
      if (used.isEmpty()) {
        return place;
      }
      if (expected == null || !Files.exists(expected)) {
        return place + ", with " + used;
      }
      boolean isExpected = Files.exists(Path.of(used)) && Files.isSameFile(expected, Path.of(used));
      return isExpected ? place : "loaded before: " + used;
    } catch (IOException unknown) {
      return place;
    }
  }

  /** The file at an address, as Linux lists them: START-END and four more words before the name. */
  private static String mappedAt(long address) throws IOException {
    String maps = new String(Files.readAllBytes(Path.of("/proc/self/maps")), StandardCharsets.UTF_8);
    for (String line : maps.split("\n")) {
      String[] words = line.split(" +", 6);
      String[] ends = words[0].split("-");
      if (words.length == 6 && Long.compareUnsigned(Long.parseUnsignedLong(ends[0], 16), address) <= 0
          && Long.compareUnsigned(address, Long.parseUnsignedLong(ends[1], 16)) < 0) {
        return words[5];
      }
    }
    return "";
  }
}
