// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/** What Java 17 does not know of threads. */
final class Threads {
  private static final MethodHandle IS_VIRTUAL = find();

  private Threads() {}

  private static MethodHandle find() {
    try {
      return MethodHandles.publicLookup().findVirtual(Thread.class, "isVirtual", MethodType.methodType(boolean.class));
    } catch (ReflectiveOperationException before21) {
      return null;
    }
  }

  static boolean isVirtual(Thread thread) {
    if (IS_VIRTUAL == null) {
      return false;
    }
    try {
      return (boolean) IS_VIRTUAL.invokeExact(thread);
    } catch (Throwable impossible) {
      throw new AssertionError(impossible);
    }
  }
}
