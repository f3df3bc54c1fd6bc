// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import java.util.ArrayList;
import java.util.List;

/**
 * What virtual threads have said of themselves: labels, tenants, metadata. The library keeps these for the threads
 * that it knows, which are the carriers, so they are told to it around each call. Nothing in between blocks, so the
 * carrier stays the same.
 */
final class Ambient {
  private static final ThreadLocal<List<Object>> SCOPES = ThreadLocal.withInitial(ArrayList::new);
  private static final ThreadLocal<String> METADATA = new ThreadLocal<>();
  /** Set by the first virtual thread that says anything; others do not look. */
  private static volatile boolean isUsed;

  private Ambient() {}

  static boolean isNeeded() {
    return Threads.isVirtual(Thread.currentThread());
  }

  /** A label, or the {@link Resource} of a tenant. */
  static int push(Object scope) {
    isUsed = true;
    List<Object> scopes = SCOPES.get();
    scopes.add(scope);
    return scopes.size();
  }

  static void pop(int depth, String what) {
    List<Object> scopes = SCOPES.get();
    if (scopes.size() != depth) {
      throw new IllegalStateException(what + " is not the one that this thread began last");
    }
    scopes.remove(depth - 1);
  }

  static void metadata(String text) {
    isUsed = true;
    METADATA.set(text);
  }

  /** Tells the carrier; whether {@link #end} has to take it back. */
  static boolean begin() {
    return isUsed && isNeeded() && tell();
  }

  private static boolean tell() {
    List<Object> scopes = SCOPES.get();
    String metadata = METADATA.get();
    if (scopes.isEmpty() && metadata == null) {
      return false;
    }
    try (Memory memory = new Memory(); Scratch scratch = Scratch.enter()) {
      for (Object scope : scopes) {
        if (scope instanceof String) {
          scratch.check(Native.labelPush(memory.text((String) scope), scratch.error));
        } else {
          scratch.check(Native.tenantBegin(((Resource) scope).address(), scratch.error));
        }
      }
      if (metadata != null) {
        scratch.check(Native.setMetadata(memory.text(metadata), scratch.error));
      }
    }
    return true;
  }

  static void end(boolean hasBegun) {
    if (!hasBegun) {
      return;
    }
    List<Object> scopes = SCOPES.get();
    for (int i = scopes.size() - 1; i >= 0; i--) {
      int status = scopes.get(i) instanceof String ? Native.labelPop(0)
          : Native.tenantEnd(((Resource) scopes.get(i)).address(), 0);
      assert status == Constants.OK;
    }
    if (METADATA.get() != null) {
      Native.setMetadata(0, 0);
    }
  }
}
