// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Finds and loads the native library: {@code libcachalot.so.N}, and {@code libcachalot_jni.so}, which calls it and
 * finds it beside itself or, failing that, where the system looks.
 *
 * <p>The first place that has it is taken. One that has it but can not be used ends the search, so that nobody works
 * with another library than was asked for.
 */
final class Library {
  static final String PROPERTY = "io.cachalot.library.path";
  static final String ENVIRONMENT = "CACHALOT_LIB_DIR";
  static final String GLUE = "libcachalot_jni.so";
  static final String CORE = "libcachalot.so." + Constants.INTERFACE / 100 + "." + Constants.INTERFACE % 100;

  private final List<String> tried = new ArrayList<>();

  private Library() {}

  /** Done once, by the class's initialization. */
  private static final class Loaded {
    static final String FROM = new Library().find();
  }

  /** Loads it, unless that has been done. */
  static void load() {
    from();
  }

  /** Where it was found. */
  static String from() {
    return Loaded.FROM;
  }

  private String find() {
    String from = fromFolder("system property " + PROPERTY, System.getProperty(PROPERTY));
    from = from != null ? from : fromFolder("environment variable " + ENVIRONMENT, System.getenv(ENVIRONMENT));
    from = from != null ? from : fromJar();
    from = from != null ? from : fromLibraryPath();
    try {
      Memory.checkInterface();
    } catch (UnsatisfiedLinkError other) {
      throw failure(from + ": " + other.getMessage());
    }
    return from;
  }

  private String fromFolder(String what, String name) {
    if (name == null || name.isEmpty()) {
      tried.add(what + ": not set");
      return null;
    }
    String place = what + ", " + name;
    Path folder = Path.of(name).toAbsolutePath();
    if (Files.isRegularFile(folder.resolve(GLUE))) {
      load(place, folder.resolve(GLUE));
      return place;
    }
    Path core = folder.resolve(CORE);
    if (!Files.isRegularFile(core)) {
      tried.add(place + ": has no " + CORE);
      return null;
    }
    unpack(place, core);
    return place;
  }

  private String fromJar() {
    if (!Unpacked.isCarried(CORE)) {
      tried.add("the jar: carries no library for " + Unpacked.PLATFORM);
      return null;
    }
    unpack("the jar", null);
    return "the jar";
  }

  private String fromLibraryPath() {
    try {
      System.loadLibrary("cachalot_jni");
      return "the library path";
    } catch (UnsatisfiedLinkError absent) {
      throw failure("the library path: " + absent.getMessage());
    }
  }

  /** Unpacks the glue, with the jar's copy of the library or a link to the one that was found. */
  private void unpack(String place, Path core) {
    if (!Unpacked.isCarried(GLUE)) {
      throw failure(place + ": has no " + GLUE + ", and the jar carries none for " + Unpacked.PLATFORM);
    }
    List<String> refused = new ArrayList<>();
    for (Path parent : Unpacked.parents()) {
      try (Unpacked unpacked = Unpacked.in(parent)) {
        if (core == null) {
          unpacked.copy(CORE);
        } else {
          unpacked.link(CORE, core);
        }
        System.load(unpacked.copy(GLUE).toString());
        return;
      } catch (IOException | UnsatisfiedLinkError failed) {
        refused.add(parent + ": " + failed.getMessage());
      }
    }
    throw failure(place + ": its native code can not be loaded from any folder for temporary files (a folder must be "
        + "writable, and not mounted noexec): " + String.join("; ", refused) + ". Name another one by the system "
        + "property " + Unpacked.PROPERTY + ", or unpack META-INF/native/" + Unpacked.PLATFORM
        + " of the jar once and name that folder by " + PROPERTY);
  }

  private void load(String place, Path file) {
    try {
      System.load(file.toString());
    } catch (UnsatisfiedLinkError failed) {
      throw failure(place + ": " + failed.getMessage());
    }
  }

  private UnsatisfiedLinkError failure(String last) {
    tried.add(last);
    return new UnsatisfiedLinkError("cachalot's native library could not be loaded; tried:\n  "
        + String.join("\n  ", tried));
  }
}
