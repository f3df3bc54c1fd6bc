// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.golden;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.GZIPInputStream;

/**
 * An operation of a script, with the lines that PyTorch's allocator printed under it.
 *
 * @param line the whole line
 * @param word its first word
 * @param expected what was printed, without the blank that each line begins with
 * @param number in the file, counted from 1
 */
record Operation(String line, String word, List<String> expected, int number) {
  static String text(Path path) throws IOException {
    try (GZIPInputStream stream = new GZIPInputStream(new ByteArrayInputStream(Files.readAllBytes(path)))) {
      return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  static List<Operation> parse(String text) {
    List<Operation> operations = new ArrayList<>();
    String[] lines = text.split("\n");
    for (int i = 0; i < lines.length; i++) {
      if (lines[i].startsWith(" ")) {
        operations.get(operations.size() - 1).expected.add(lines[i].substring(1));
      } else {
        operations.add(new Operation(lines[i], lines[i].split("[ \t]", 2)[0], new ArrayList<>(), i + 1));
      }
    }
    return operations;
  }
}
