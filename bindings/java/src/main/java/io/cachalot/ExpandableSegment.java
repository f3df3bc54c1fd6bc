// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * An expandable segment.
 *
 * @param stream its stream
 * @param mappedSize bytes that are backed by memory
 * @param isSmall whether it is of the small pool
 */
public record ExpandableSegment(long stream, long mappedSize, boolean isSmall) {
  static ExpandableSegment of(Structs.ExpandableSegment from) {
    return new ExpandableSegment(from.stream, from.mappedSize, from.isSmall != 0);
  }
}
