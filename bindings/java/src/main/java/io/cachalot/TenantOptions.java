// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;
import java.util.Objects;

/** How a tenant is made. */
public final class TenantOptions {
  private final Structs.TenantOptions values = new Structs.TenantOptions();

  private PressureCallback callback;

  /**
   * A tenant without guarantee, limit and callback.
   *
   * @param name for messages and statistics, less than 64 bytes; "": "tenant N". Two tenants may have the same
   */
  public TenantOptions(String name) {
    values.name = Arguments.text(name, "name");
  }

  /**
   * What it can have at any time.
   *
   * @param bytes on each device
   * @return this
   */
  public TenantOptions guaranteedBytes(long bytes) {
    values.guaranteedBytes = Arguments.size(bytes, "bytes");
    return this;
  }

  /**
   * What it can have at most.
   *
   * @param bytes on each device; 0: no limit; else not below the guarantee
   * @return this
   */
  public TenantOptions limitBytes(long bytes) {
    values.limitBytes = Arguments.size(bytes, "bytes");
    return this;
  }

  /**
   * Tenants of lower priority give first.
   *
   * @param priority the priority
   * @return this
   */
  public TenantOptions priority(int priority) {
    values.priority = priority;
    return this;
  }

  /**
   * Is asked to free memory of the tenant's own, on the thread of the request that needs it.
   *
   * @param callback what is asked
   * @return this
   */
  public TenantOptions onPressure(PressureCallback callback) {
    this.callback = Objects.requireNonNull(callback, "callback");
    return this;
  }

  PressureCallback callback() {
    return callback;
  }

  /** A struct of its own, since its callback is the tenant's for as long as that lives. */
  Structs.TenantOptions toC() {
    Structs.TenantOptions copy = new Structs.TenantOptions();
    copy.name = values.name;
    copy.guaranteedBytes = values.guaranteedBytes;
    copy.limitBytes = values.limitBytes;
    copy.priority = values.priority;
    return copy;
  }
}
