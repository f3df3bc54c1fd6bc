// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

/** What was sent is no PNG image. */
final class MalformedException extends Exception {
  private static final long serialVersionUID = 1;

  MalformedException(String message) {
    super(message);
  }
}
