// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * Live blocks of one label, tenant, stream and pool.
 *
 * @param label as {@link LabelStats#label}; "": none, or labels are not tracked
 * @param tenant the id of the tenant; 0: the default one
 * @param stream their stream
 * @param pool their pool
 * @param blocks how many
 * @param bytes their bytes
 * @param requested what callers asked for
 */
public record ReportHolder(
    String label, int tenant, long stream, PoolId pool, long blocks, long bytes, long requested) {
  static ReportHolder of(Structs.ReportHolder from) {
    return new ReportHolder(
        from.label, from.tenant, from.stream, PoolId.of(from.pool), from.blocks, from.bytes, from.requested);
  }
}
