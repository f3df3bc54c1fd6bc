// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;
import java.util.Objects;

/** What goes into a snapshot. */
public final class SnapshotOptions {
  final Structs.SnapshotOptions values = new Structs.SnapshotOptions();

  /** All defaults. */
  public SnapshotOptions() {}

  /**
   * Only the segments of this private pool.
   *
   * @param pool {@link PoolId#DEFAULT}: all segments
   * @return this
   */
  public SnapshotOptions pool(PoolId pool) {
    values.pool = Objects.requireNonNull(pool, "pool").toC();
    return this;
  }

  /**
   * Leaves the history out.
   *
   * @return this
   */
  public SnapshotOptions withoutHistory() {
    values.withoutHistory = 1;
    return this;
  }
}
