// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/** The blocks of a private pool at one moment, to be put back later; this version has none. */
public final class Checkpoint {
  private final Resource resource;

  Checkpoint(long address) {
    resource = new Resource("checkpoint", address) {
      @Override
      void destroy(long destroyed, Scratch scratch) {}
    };
  }

  Resource resource() {
    return resource;
  }
}
