// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * One block of a segment.
 *
 * @param address its first byte
 * @param size its bytes
 * @param requestedSize what was last requested of it, also of an inactive block
 * @param state its state
 * @param context the context of its hand-out; 0: none
 */
public record SegmentBlock(long address, long size, long requestedSize, BlockState state, long context) {
  static SegmentBlock of(Structs.BlockRow from) {
    return new SegmentBlock(from.address, from.size, from.requestedSize, BlockState.of(from.state), from.context);
  }
}
