// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;

/** A thread's requests are those of a tenant until this is closed ({@link Tenant#enter}). */
public final class TenantScope implements AutoCloseable {
  private final Tenant tenant;
  private final Thread thread = Thread.currentThread();
  private final boolean isAmbient = Ambient.isNeeded();
  private final int depth;
  private boolean isClosed;

  TenantScope(Tenant tenant) {
    this.tenant = tenant;
    if (isAmbient) {
      depth = tenant.core.push();
      return;
    }
    depth = 0;
    try (Scratch scratch = Scratch.enter(tenant.core)) {
      scratch.check(Native.tenantBegin(scratch.handle, scratch.error));
    }
  }

  /**
   * Ends the scope. Again: nothing.
   *
   * @throws IllegalStateException on another thread, or if another tenant was entered since
   */
  @Override
  public void close() {
    if (isClosed) {
      return;
    }
    if (Thread.currentThread() != thread) {
      throw new IllegalStateException("a tenant is left by the thread that entered it");
    }
    if (isAmbient) {
      tenant.core.pop(depth);
    } else {
      try (Scratch scratch = Scratch.enter(tenant.core)) {
        scratch.check(Native.tenantEnd(scratch.handle, scratch.error));
      }
    }
    isClosed = true;
  }
}
