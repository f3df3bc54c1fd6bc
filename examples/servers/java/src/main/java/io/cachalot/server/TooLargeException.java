// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

/** An image of more pixels than are taken. */
final class TooLargeException extends Exception {
  private static final long serialVersionUID = 1;

  TooLargeException(String message) {
    super(message);
  }
}
