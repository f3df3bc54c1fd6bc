// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtLoggingLevel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Loads ONNX Runtime's package with a library of one's own choice. */
final class OnnxRuntime {
  private static final String FOLDER = "onnxruntime-java";
  private static final String GLUE = "libonnxruntime4j_jni.so";

  private OnnxRuntime() {}

  static OrtEnvironment load(Path library) throws IOException {
    if (!Files.isReadable(library)) {
      throw new IllegalArgumentException("SERVER_ORT=" + library + ": there is no such file");
    }
    // Else the package loads the library that it brings along.
    System.setProperty("onnxruntime.native.onnxruntime.path", library.toAbsolutePath().toString());
    OrtEnvironment environment =
        OrtEnvironment.getEnvironment(OrtLoggingLevel.ORT_LOGGING_LEVEL_WARNING, "cachalot-server");
    deleteCopy();
    return environment;
  }

  /**
   * Deletes the copy of its glue that the package has put into a folder for temporary files, now that it is loaded. It
   * would do so itself when Java ends, but not when this server does, which chooses its exit status.
   */
  private static void deleteCopy() throws IOException {
    Path temporary = Path.of(System.getProperty("java.io.tmpdir")).toRealPath();
    List<String> mapped = Files.readAllLines(Path.of("/proc/self/maps"));
    for (String line : mapped) {
      Path file = Path.of(line.substring(Math.max(line.indexOf('/'), 0)));
      if (file.startsWith(temporary) && isCopy(temporary.relativize(file))) {
        Files.deleteIfExists(file);
        Files.deleteIfExists(file.getParent());
      }
    }
  }

  private static boolean isCopy(Path file) {
    return file.getNameCount() == 2 && file.getName(0).toString().startsWith(FOLDER) && file.endsWith(GLUE);
  }
}
