// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * One block of a checkpoint.
 *
 * @param address its first byte
 * @param size its bytes
 * @param stream the stream that the memory of its segment was obtained for
 * @param isUsed whether it is handed out
 * @param isMapped false: addresses at the end of an expandable segment that have no pages; they are not put back
 */
public record CheckpointBlock(long address, long size, long stream, boolean isUsed, boolean isMapped) {
  static CheckpointBlock of(Structs.CheckpointRow from) {
    return new CheckpointBlock(from.address, from.size, from.stream, from.isUsed != 0, from.isMapped != 0);
  }

  Structs.CheckpointRow toC(long segment) {
    Structs.CheckpointRow row = new Structs.CheckpointRow();
    row.address = address;
    row.size = size;
    row.stream = stream;
    row.segment = segment;
    row.isUsed = isUsed ? 1 : 0;
    row.isMapped = isMapped ? 1 : 0;
    return row;
  }
}
