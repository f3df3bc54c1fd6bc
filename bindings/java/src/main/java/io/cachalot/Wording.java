// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;

/** Whose words errors, warnings and tables have. The numbers are the same. */
public enum Wording {
  /** PyTorch's, to the letter, for programs that search them. */
  PYTORCH(Constants.TEXTS_PYTORCH),
  /** Without PyTorch: "allocated by this process", "set CACHALOT_ALLOC_CONF". */
  OWN(Constants.TEXTS_OWN);

  private final int number;

  Wording(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }
}
