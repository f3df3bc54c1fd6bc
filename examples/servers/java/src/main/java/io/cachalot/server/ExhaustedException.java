// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

/** There was no memory for a request of ONNX Runtime's. */
final class ExhaustedException extends Exception {
  private static final long serialVersionUID = 1;

  /** Who held what at that moment. */
  private final String report;

  /** With cachalot's message. */
  ExhaustedException(String message, String report) {
    super(message);
    this.report = report;
  }

  String report() {
    return report;
  }
}
