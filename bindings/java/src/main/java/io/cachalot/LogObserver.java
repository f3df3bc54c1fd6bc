// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * Gets the library's remarks ({@link AllocatorBuilder#log}). What it throws goes to its thread's handler of uncaught
 * exceptions.
 */
@FunctionalInterface
public interface LogObserver {
  /**
   * A remark. It must not call the library.
   *
   * @param level its kind
   * @param message one line
   */
  void log(LogLevel level, String message);
}
