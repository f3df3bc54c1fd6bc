// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;

/** The device has not enough memory, or a limit refuses it. The allocator stays usable. */
public class OutOfDeviceMemoryException extends CachalotException {
  private static final long serialVersionUID = 1;

  /** The numbers. */
  private final OutOfMemory numbers;

  OutOfDeviceMemoryException(String message, OutOfMemory numbers) {
    super(Constants.ERROR_OUT_OF_MEMORY, message);
    this.numbers = numbers;
  }

  /**
   * What was asked for and what there was.
   *
   * @return the numbers
   */
  public final OutOfMemory numbers() {
    return numbers;
  }
}
