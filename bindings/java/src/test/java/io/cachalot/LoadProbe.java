// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;

/**
 * A program that loads the library and says where it was found, or why it was not. {@code probe.load} names a file of
 * native code to be loaded before, {@code probe.loaders} says how many class loaders are to do it.
 */
public final class LoadProbe {
  private LoadProbe() {}

  /** Starts it. */
  public static void main(String[] arguments) throws Exception {
    String before = System.getProperty("probe.load");
    if (before != null) {
      System.load(before);
    }
    List<ClassLoader> kept = new ArrayList<>();
    for (int i = 0; i < Integer.getInteger("probe.loaders", 1); i++) {
      URLClassLoader loader = new URLClassLoader(classPath(), ClassLoader.getPlatformClassLoader());
      loader.loadClass(LoadProbe.class.getName()).getMethod("probe").invoke(null);
      kept.add(loader);
    }
  }

  private static URL[] classPath() throws Exception {
    List<URL> urls = new ArrayList<>();
    for (String each : System.getProperty("java.class.path").split(":")) {
      urls.add(new File(each).toURI().toURL());
    }
    return urls.toArray(new URL[0]);
  }

  /** In the class loader of this class. */
  public static void probe() {
    try (Sim sim = Sim.create(0); Allocator allocator = Allocator.builder().driver(sim).options("").build();
        Block block = allocator.allocate(1)) {
      System.out.println("found: " + Cachalot.libraryPlace());
    } catch (LinkageError failed) {
      Throwable cause = failed.getCause() == null ? failed : failed.getCause();
      System.out.println("failed: " + cause.getMessage());
      try {
        Cachalot.version();
      } catch (LinkageError again) {
        System.out.println("again: " + again.getMessage());
      }
    }
  }
}
