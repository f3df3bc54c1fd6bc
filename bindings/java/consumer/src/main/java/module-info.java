// SPDX-License-Identifier: MIT OR Apache-2.0
/** The jar is a module for those who have one. */
module consumer {
  requires io.cachalot;
  requires io.cachalot.micrometer;
  requires micrometer.core;
}
