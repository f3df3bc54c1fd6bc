// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;

/** The library as a whole. */
public final class Cachalot {
  private Cachalot() {}

  /**
   * The version of the native library that is loaded, for example "0.1.0".
   *
   * @return major, minor and patch
   */
  public static String version() {
    Library.load();
    return Memory.textOf(Native.version());
  }

  /**
   * The version as a number.
   *
   * @return major * 10000 + minor * 100 + patch
   */
  public static int versionNumber() {
    Library.load();
    return Native.versionNumber();
  }

  /**
   * Where the native library comes from, for reports of errors. A library of the same interface that the process had
   * before, through another class loader or a program in C, is shared, wherever it came from.
   *
   * @return the system property, the environment variable, the jar or the library path, in words; {@code loaded
   *     before: FILE} for a library that the process had
   */
  public static String libraryPlace() {
    return Library.from();
  }

  /**
   * The text that the calling thread's later entries of the history carry, in every allocator.
   *
   * @param text the text; null or "": none
   */
  public static void setMetadata(String text) {
    if (Ambient.isNeeded()) {
      Ambient.metadata(text);
      return;
    }
    try (Scratch scratch = Scratch.enter(); Memory memory = new Memory()) {
      scratch.check(Native.setMetadata(Texts.toC(memory, text), scratch.error));
    }
  }
}
