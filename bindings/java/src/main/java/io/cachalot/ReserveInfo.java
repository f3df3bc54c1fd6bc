// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * The address space that segments of a reserve class get.
 *
 * @param hasReserve whether an option or a default applies
 * @param isClassKnown whether the class has an entry of its own
 * @param reserveBytes of how many bytes that is
 * @param segmentBytes what a new segment gets, before it is rounded up to pages
 */
public record ReserveInfo(boolean hasReserve, boolean isClassKnown, long reserveBytes, long segmentBytes) {
  static ReserveInfo of(Structs.Reserve from) {
    return new ReserveInfo(from.hasReserve != 0, from.isClassKnown != 0, from.reserveBytes, from.segmentBytes);
  }
}
