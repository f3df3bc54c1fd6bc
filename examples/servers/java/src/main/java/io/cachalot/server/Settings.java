// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;

/**
 * What the environment says. {@code examples/servers/README.md} lists the variables.
 *
 * @param sessions of each model, at most
 * @param workers requests that are worked on at a time
 */
record Settings(
    String address, Path models, Path library, String driver, int sessions, int workers, Duration idle,
    long watermark) {
  /** The only one of {@code SERVER_ALLOCATOR} that this server has. */
  static final String MODE = "cachalot";

  static Settings from(Map<String, String> environment) {
    String mode = text(environment, "SERVER_ALLOCATOR", MODE);
    if (!mode.equals(MODE)) {
      throw new IllegalArgumentException("SERVER_ALLOCATOR=" + mode + ": this server has " + MODE + " only");
    }
    return new Settings(
        text(environment, "SERVER_ADDRESS", "127.0.0.1:8080"),
        Path.of(text(environment, "SERVER_MODELS", "build/onnxruntime/models")),
        Path.of(text(environment, "SERVER_ORT", "build/onnxruntime/lib/libonnxruntime.so")),
        text(environment, "CACHALOT_DRIVER", "host:4GiB"),
        (int) number(environment, "SERVER_SESSIONS", 2, 1, Integer.MAX_VALUE),
        (int) number(environment, "SERVER_WORKERS", 8, 1, Short.MAX_VALUE),
        Duration.ofMillis(number(environment, "SERVER_IDLE_MS", 2000, 0, Long.MAX_VALUE)),
        number(environment, "SERVER_WATERMARK", 64 << 20, 0, Long.MAX_VALUE));
  }

  private static String text(Map<String, String> environment, String name, String otherwise) {
    String value = environment.getOrDefault(name, "");
    return value.isEmpty() ? otherwise : value;
  }

  private static long number(Map<String, String> environment, String name, long otherwise, long least, long most) {
    String value = text(environment, name, Long.toString(otherwise));
    try {
      long number = Long.parseLong(value);
      if (number >= least && number <= most) {
        return number;
      }
    } catch (NumberFormatException none) {
      // said below
    }
    throw new IllegalArgumentException(name + "=" + value + ": it is no whole number from " + least + " to " + most);
  }
}
