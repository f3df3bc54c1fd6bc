// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * What was handed out under one label while {@link AllocatorBuilder#trackLabels} is on.
 *
 * @param label the labels of the thread that asked, outermost first, with / between; cut to 255 bytes.
 *     The row "(other)" has the labels that have no row of their own any more
 * @param allocation blocks handed out
 * @param allocatedBytes their bytes
 */
public record LabelStats(String label, Stat allocation, Stat allocatedBytes) {
  static LabelStats of(Structs.LabelStats from) {
    return new LabelStats(from.label, Stat.of(from.allocation), Stat.of(from.allocatedBytes));
  }
}
