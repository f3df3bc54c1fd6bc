// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * What a recorder has written.
 *
 * @param events that it has seen, blocks that were live included
 * @param lost lines that it could not write: the disk is full, or the stream has failed
 * @param bytes of all files
 */
public record RecorderStats(long events, long lost, long bytes) {
  static RecorderStats of(Structs.RecorderStats from) {
    return new RecorderStats(from.events, from.lost, from.bytes);
  }
}
