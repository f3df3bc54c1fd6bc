// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.util.ArrayList;
import java.util.List;

/**
 * What a call can come to.
 *
 * @param number the number, which never changes
 * @param name for example {@code OUT_OF_MEMORY}
 * @param text one sentence
 */
public record Status(int number, String name, String text) {
  /**
   * All that the library knows, in ascending order of the numbers.
   *
   * @return the list
   */
  public static List<Status> all() {
    List<Status> all = new ArrayList<>();
    try (Scratch scratch = Scratch.enter()) {
      for (long i = 0; i < Native.statusCount(); i++) {
        Errors.row(Native.statusAt(i, scratch.sized(Structs.StatusDescription.SIZE)), i);
        all.add(of(Structs.StatusDescription.read(scratch.memory(), Scratch.struct())));
      }
    }
    return List.copyOf(all);
  }

  /**
   * The name of a status.
   *
   * @param number its number
   * @return the name; {@code UNKNOWN} for a number that is none
   */
  public static String nameOf(int number) {
    Library.load();
    return io.cachalot.raw.Memory.textOf(Native.statusName(number));
  }

  static Status of(Structs.StatusDescription from) {
    return new Status(from.status, from.name, from.text);
  }
}
