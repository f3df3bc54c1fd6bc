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
 * <p>The first place that has it is taken. One that has it but cannot be used ends the search, so that nobody works
 * with another library than was asked for.
 */
final class Library {
  static final String PROPERTY = "io.cachalot.library.path";
  static final String ENVIRONMENT = "CACHALOT_LIB_DIR";
  static final String GLUE = "libcachalot_jni.so";
  static final String CORE = "libcachalot.so." + Constants.INTERFACE / 100 + "." + Constants.INTERFACE % 100;

  private final List<String> tried = new ArrayList<>();
  private String failure = "cachalot's native library could not be loaded";

  private Library() {}

  /** Done once, by the class's initialization, which must not fail: later uses of the class would not say why. */
  private static final class Loaded {
    /** Null: that failed. */
    static final String FROM;
    static final Throwable FAILURE;

    static {
      String from = null;
      Throwable failure = null;
      try {
        from = new Library().find();
      } catch (LinkageError | RuntimeException thrown) {
        failure = thrown;
      }
      FROM = from;
      FAILURE = failure;
    }
  }

  /** Loads it, unless that has been done; each time that it is tried a failure is the same. */
  static void load() {
    from();
  }

  /** Where it was found. */
  static String from() {
    if (Loaded.FROM == null) {
      UnsatisfiedLinkError failure = new UnsatisfiedLinkError(Loaded.FAILURE.getMessage());
      failure.initCause(Loaded.FAILURE);
      throw failure;
    }
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
    Path core = folder.resolve(CORE);
    if (Files.isRegularFile(folder.resolve(GLUE))) {
      return load(place, folder.resolve(GLUE), core);
    }
    if (!Files.isRegularFile(core)) {
      tried.add(place + ": has no " + CORE);
      return null;
    }
    return unpack(place, null, core);
  }

  private String fromJar() {
    if (!Unpacked.isCarried(CORE)) {
      tried.add("the jar: carries no library for " + Unpacked.PLATFORM);
      failure = "cachalot has no native library for " + Unpacked.PLATFORM + " (the jar has: "
          + Unpacked.carriedPlatforms() + "); build one, and name its folder by " + PROPERTY;
      return null;
    }
    return unpack("the jar", null, null);
  }

  private String fromLibraryPath() {
    try {
      System.loadLibrary("cachalot_jni");
      return CoreFile.place("the library path", null);
    } catch (UnsatisfiedLinkError absent) {
      if (isOfAnotherLoader(absent)) {
        for (String folder : System.getProperty("java.library.path").split(":")) {
          Path glue = Path.of(folder).toAbsolutePath().resolve(GLUE);
          if (Files.isRegularFile(glue)) {
            return unpack("the library path", glue, glue.resolveSibling(CORE));
          }
        }
      }
      throw failure("the library path: " + absent.getMessage());
    }
  }

  /** A file of native code is loaded for one class loader; another one needs a copy. */
  private static boolean isOfAnotherLoader(UnsatisfiedLinkError failed) {
    return String.valueOf(failed.getMessage()).contains("already loaded");
  }

  /**
   * Puts glue and library into a folder for temporary files, and loads them.
   *
   * @param glue null: that of the jar
   * @param core to be linked to; null: the copy of the jar
   */
  private String unpack(String place, Path glue, Path core) {
    if (glue == null && !Unpacked.isCarried(GLUE)) {
      throw failure(place + ": has no " + GLUE + ", and the jar carries none for " + Unpacked.PLATFORM);
    }
    List<String> refused = new ArrayList<>();
    for (Path parent : Unpacked.parents()) {
      try (Unpacked unpacked = Unpacked.in(parent)) {
        Path expected = core;
        if (core == null) {
          expected = unpacked.copy(CORE);
        } else if (Files.isRegularFile(core)) {
          unpacked.link(CORE, core);
        }
        System.load((glue == null ? unpacked.copy(GLUE) : unpacked.copy(glue)).toString());
        return CoreFile.place(place, expected);
      } catch (IOException | UnsatisfiedLinkError failed) {
        refused.add(parent + ": " + failed.getMessage());
      }
    }
    throw failure(place + ": its native code cannot be loaded from any folder for temporary files (a folder must be "
        + "writable, and not mounted noexec): " + String.join("; ", refused) + ". Name another one by the system "
        + "property " + Unpacked.PROPERTY + ", or unpack META-INF/native/" + Unpacked.PLATFORM
        + " of the jar once and name that folder by " + PROPERTY);
  }

  private String load(String place, Path glue, Path core) {
    try {
      System.load(glue.toString());
      return CoreFile.place(place, core);
    } catch (UnsatisfiedLinkError failed) {
      if (isOfAnotherLoader(failed)) {
        return unpack(place, glue, core);
      }
      throw failure(place + ": " + failed.getMessage());
    }
  }

  private UnsatisfiedLinkError failure(String last) {
    tried.add(last);
    return new UnsatisfiedLinkError(failure + "; tried:\n  " + String.join("\n  ", tried));
  }
}
