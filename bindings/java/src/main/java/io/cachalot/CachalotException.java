// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * A call of the library failed.
 *
 * <p>What a program did wrong comes as the exception of the JDK instead: {@link IllegalArgumentException},
 * {@link IllegalStateException}, and {@link UnsupportedOperationException} for what the chosen release, driver or
 * build does not have.
 */
public class CachalotException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** The number of the status. */
  private final int status;

  CachalotException(int status, String message) {
    super(message);
    this.status = status;
  }

  /**
   * The number of the status, also of one that this version does not know.
   *
   * @return one of {@link Status#number()}
   */
  public final int status() {
    return status;
  }
}
