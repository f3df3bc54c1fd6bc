// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * Where a device's memory is, in bytes.
 *
 * @param total what the device has
 * @param used what of it is in use, by whomever
 * @param usedByProcess what the management library says of this process; 0 where it does not know
 * @param reserved what this allocator has obtained
 * @param outside used - reserved: other processes, contexts, libraries, other allocators
 */
public record DeviceTotals(long total, long used, long usedByProcess, long reserved, long outside) {
  static DeviceTotals of(Structs.DeviceTotals from) {
    return new DeviceTotals(from.total, from.used, from.usedByProcess, from.reserved, from.outside);
  }
}
