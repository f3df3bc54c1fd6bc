// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.util.List;

/**
 * What putting a pool back has done.
 *
 * @param freed the addresses of the blocks that were handed out before, in the order of their frees
 * @param created those of the blocks that are handed out now
 */
public record CheckpointChanges(List<Long> freed, List<Long> created) {
  /**
   * Copies the lists.
   *
   * @param freed the addresses of the blocks that were handed out before
   * @param created those of the blocks that are handed out now
   */
  public CheckpointChanges {
    freed = List.copyOf(freed);
    created = List.copyOf(created);
  }
}
