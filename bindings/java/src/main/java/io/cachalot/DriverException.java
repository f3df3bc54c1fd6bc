// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/** The device's driver reported an error, or no driver could be opened. */
public class DriverException extends CachalotException {
  private static final long serialVersionUID = 1;

  /** The driver's code. */
  private final int driverCode;

  DriverException(int status, String message, int driverCode) {
    super(status, message);
    this.driverCode = driverCode;
  }

  /**
   * The driver's own code.
   *
   * @return a {@code CUresult}; 0 if no driver could be opened
   */
  public final int driverCode() {
    return driverCode;
  }
}
