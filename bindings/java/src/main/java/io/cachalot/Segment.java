// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;
import java.util.List;
import java.util.Objects;

/**
 * A segment, or one contiguous mapped range of an expandable one. Sizes in bytes.
 *
 * @param device its device
 * @param isLarge whether it is of a large pool
 * @param address its first byte
 * @param totalSize its size
 * @param allocatedSize of its blocks, those handed out
 * @param activeSize those handed out or waiting
 * @param requestedSize what was requested of the latter
 * @param stream its stream
 * @param pool its pool
 * @param isExpandable whether it is a range of an expandable segment
 * @param number in the order in which segments were obtained (0 under 2.11)
 * @param context the context of the call that obtained it; 0: none
 * @param blocks its blocks, by address
 */
public record Segment(
    int device, boolean isLarge, long address, long totalSize, long allocatedSize, long activeSize, long
    requestedSize, long stream, PoolId pool, boolean isExpandable, long number, long context, List<SegmentBlock>
    blocks) {
  /**
   * A segment that keeps a copy of the list.
   *
   * @param device its device
   * @param isLarge whether it is of a large pool
   * @param address its first byte
   * @param totalSize its size
   * @param allocatedSize of its blocks, those handed out
   * @param activeSize those handed out or waiting
   * @param requestedSize what was requested of the latter
   * @param stream its stream
   * @param pool its pool
   * @param isExpandable whether it is a range of an expandable segment
   * @param number in the order in which segments were obtained (0 under 2.11)
   * @param context the context of the call that obtained it; 0: none
   * @param blocks its blocks, by address
   */
  public Segment {
    blocks = List.copyOf(Objects.requireNonNull(blocks, "blocks"));
  }

  static Segment of(Structs.SegmentRow from, List<SegmentBlock> blocks) {
    return new Segment(
        from.device, from.isLarge != 0, from.address, from.totalSize, from.allocatedSize, from.activeSize,
        from.requestedSize, from.stream, PoolId.of(from.pool), from.isExpandable != 0, from.number, from.context,
        blocks);
  }
}
