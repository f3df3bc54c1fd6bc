// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/** A program that loads the library and says where it was found, or why it was not. */
final class LoadProbe {
  private LoadProbe() {}

  public static void main(String[] arguments) {
    try (Sim sim = Sim.create(0); Allocator allocator = Allocator.builder().driver(sim).options("").build();
        Block block = allocator.allocate(1)) {
      System.out.println("found: " + Cachalot.libraryPlace());
    } catch (LinkageError failed) {
      Throwable cause = failed.getCause() == null ? failed : failed.getCause();
      System.out.println("failed: " + cause.getMessage());
    }
  }
}
