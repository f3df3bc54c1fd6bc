// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Structs;

/** The one place where a status becomes an exception. */
final class Errors {
  private Errors() {}

  static RuntimeException of(int status, Structs.Error error) {
    switch (status) {
      case Constants.ERROR_INVALID_ARGUMENT:
        return new IllegalArgumentException(error.message);
      case Constants.ERROR_INVALID_STATE:
        return new IllegalStateException(error.message);
      case Constants.ERROR_NOT_SUPPORTED:
        return new UnsupportedOperationException(error.message);
      case Constants.ERROR_OUT_OF_MEMORY:
        return new OutOfDeviceMemoryException(error.message, OutOfMemory.of(error));
      case Constants.ERROR_DRIVER:
      case Constants.ERROR_DRIVER_UNAVAILABLE:
        return new DriverException(status, error.message, error.driverCode);
      default:
        return new CachalotException(status, error.message);
    }
  }

  /** Of a function that gives no text: only an index past the last makes these fail. */
  static void row(int status, long index) {
    if (status != Constants.OK) {
      throw new IndexOutOfBoundsException("there is no row " + index);
    }
  }

  /**
   * Throws what a callback threw, to the caller on whose thread it ran. Kotlin and others throw checked exceptions
   * that nobody has declared.
   */
  @SuppressWarnings("unchecked")
  static <T extends Throwable> void rethrow(Throwable thrown) throws T {
    if (thrown != null) {
      throw (T) thrown;
    }
  }
}
