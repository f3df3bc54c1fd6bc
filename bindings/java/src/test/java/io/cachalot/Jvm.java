// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A new virtual machine, of the kind that runs the tests. */
final class Jvm {
  private Jvm() {}

  /** What its program prints; {@code before} is what it is started by. */
  static String run(List<String> before, Map<String, String> environment, List<String> arguments) throws Exception {
    List<String> command = new ArrayList<>(before);
    command.add(System.getProperty("java.home") + "/bin/java");
    if (Runtime.version().feature() >= 22) {
      command.add("--enable-native-access=ALL-UNNAMED");
    }
    command.addAll(arguments);
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().remove("CACHALOT_LIB_DIR");
    builder.environment().putAll(environment);
    Process process = builder.start();
    String output = new String(process.getInputStream().readAllBytes());
    assertEquals(0, process.waitFor(), output);
    return output;
  }
}
