// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.util.Arrays;
import java.util.HexFormat;
import java.util.Objects;

/**
 * What another process needs to open a block. Two handles are equal if their bytes and their offsets are.
 *
 * @param handle the bytes to be sent
 * @param offset of the block in the memory that is opened
 */
public record SharedHandle(byte[] handle, long offset) {
  /**
   * A handle that was sent.
   *
   * @param handle the bytes, which are copied
   * @param offset of the block in the memory that is opened
   */
  public SharedHandle {
    handle = Objects.requireNonNull(handle, "handle").clone();
  }

  /**
   * The bytes to be sent.
   *
   * @return a copy
   */
  @Override
  public byte[] handle() {
    return handle.clone();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof SharedHandle && ((SharedHandle) other).offset == offset
        && Arrays.equals(((SharedHandle) other).handle, handle);
  }

  @Override
  public int hashCode() {
    return 31 * Arrays.hashCode(handle) + Long.hashCode(offset);
  }

  /** The bytes as hexadecimal digits, and the offset. */
  @Override
  public String toString() {
    return "SharedHandle[handle=" + HexFormat.of().formatHex(handle) + ", offset=" + offset + "]";
  }
}
