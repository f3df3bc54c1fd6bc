// SPDX-License-Identifier: MIT OR Apache-2.0

/**
 * The statistics of cachalot's allocators as Micrometer's meters, in the artifact {@code cachalot-micrometer}. The jar is
 * an automatic module of this name, since Micrometer is no module; Javadoc takes this description of it.
 */
module io.cachalot.micrometer {
  requires io.cachalot;
  requires micrometer.core;

  exports io.cachalot.micrometer;
}
