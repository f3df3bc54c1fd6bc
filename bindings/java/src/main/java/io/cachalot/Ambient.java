// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntSupplier;

/**
 * What virtual threads have said of themselves: labels, tenants, metadata. The library keeps these for the threads
 * that it knows, which are the carriers, so they are told to the carrier around each call.
 *
 * <p>Between {@link #begin} and {@link #end} stands the native call and nothing else: whatever waits, be it for a
 * lock, may go on on another carrier.
 */
final class Ambient {
  private static final ThreadLocal<Ambient> OF_THREAD = ThreadLocal.withInitial(Ambient::new);
  /** Set by the first virtual thread that says anything; others do not look. */
  private static volatile boolean isUsed;

  private final List<Scope> scopes = new ArrayList<>();
  private Text metadata;
  /** During a call, in whose callbacks the carrier is the same. */
  private boolean isTold;

  /** One thing that was said. Both give a status. */
  interface Scope {
    int tell();

    int takeBack();
  }

  private Ambient() {}

  static boolean isNeeded() {
    return Threads.isVirtual(Thread.currentThread());
  }

  /** The depth, for {@link #pop}. */
  static int push(Scope scope) {
    Library.load();
    isUsed = true;
    Ambient own = OF_THREAD.get();
    if (own.isTold && scope.tell() != Constants.OK) {
      throw new IllegalStateException("the library refuses the scope");
    }
    own.scopes.add(scope);
    return own.scopes.size();
  }

  static void pop(int depth, String what) {
    Ambient own = OF_THREAD.get();
    if (own.scopes.size() != depth) {
      throw new IllegalStateException(what + " is not the one that this thread began last");
    }
    Scope scope = own.scopes.remove(depth - 1);
    if (own.isTold) {
      scope.takeBack();
    }
  }

  static void metadata(String text) {
    Library.load();
    isUsed = true;
    Ambient own = OF_THREAD.get();
    own.metadata = text == null || text.isEmpty() ? null : new Text(text);
    if (own.isTold) {
      Native.setMetadata(own.metadata == null ? 0 : own.metadata.address, 0);
    }
  }

  /** Tells the carrier; whether {@link #end} has to take it back. */
  static boolean begin() {
    return isUsed && isNeeded() && OF_THREAD.get().tell();
  }

  static void end(boolean hasBegun) {
    if (hasBegun) {
      OF_THREAD.get().takeBack();
    }
  }

  /** Makes a native call so; its status. A hit's two calls write it out, without an object. */
  static int call(IntSupplier nativeCall) {
    boolean hasBegun = begin();
    try {
      return nativeCall.getAsInt();
    } finally {
      end(hasBegun);
    }
  }

  private boolean tell() {
    if (isTold || scopes.isEmpty() && metadata == null) {
      return false;
    }
    for (int i = 0; i < scopes.size(); i++) {
      if (scopes.get(i).tell() != Constants.OK) {
        takeBack(i);
        throw new IllegalStateException("the library refuses a label or tenant of this thread");
      }
    }
    if (metadata != null) {
      Native.setMetadata(metadata.address, 0);
    }
    isTold = true;
    return true;
  }

  private void takeBack() {
    isTold = false;
    if (metadata != null) {
      Native.setMetadata(0, 0);
    }
    takeBack(scopes.size());
  }

  private void takeBack(int count) {
    for (int i = count - 1; i >= 0; i--) {
      scopes.get(i).takeBack();
    }
  }

  /** A label, or metadata. Written once, since writing may wait. */
  static final class Text implements Scope {
    private final Memory memory = new Memory();
    private final long address;

    Text(String text) {
      address = Texts.toC(memory, text);
    }

    @Override
    public int tell() {
      return Native.labelPush(address, 0);
    }

    @Override
    public int takeBack() {
      return Native.labelPop(0);
    }
  }
}
