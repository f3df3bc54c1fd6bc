// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * A request that was refused before the driver was asked ({@code throw_on_cudamalloc_oom}).
 *
 * @param device the device
 * @param segmentSize bytes of the segment that would have been asked for
 * @param reserved bytes that were reserved before
 * @param deviceTotal bytes that the device has
 */
public record Rejection(int device, long segmentSize, long reserved, long deviceTotal) {
  static Rejection of(Structs.Rejection from) {
    return new Rejection(from.device, from.segmentSize, from.reserved, from.deviceTotal);
  }
}
