// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * Memory that is not live, by what is in the way.
 *
 * @param reason what is in the way
 * @param blocks how many blocks
 * @param bytes their bytes
 * @param largest those of the largest
 * @param releasable what a trim could give back of them
 */
public record ReportReason(Reason reason, long blocks, long bytes, long largest, long releasable) {
  static ReportReason of(Structs.ReportReason from) {
    return new ReportReason(Reason.of(from.reason), from.blocks, from.bytes, from.largest, from.releasable);
  }
}
