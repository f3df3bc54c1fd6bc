// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * One call of a stack.
 *
 * @param address where the call returns to
 * @param fileOffset that place in the file, in bytes; 0 without a path
 * @param path the program or library that was loaded there; "" if none is known
 */
public record TraceFrame(long address, long fileOffset, String path) {
  static TraceFrame of(Structs.TraceFrame from) {
    return new TraceFrame(from.address, from.fileOffset, from.path);
  }
}
