// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * What another process needs to open a block.
 *
 * @param handle the bytes to be sent
 * @param offset of the block in the memory that is opened
 */
public record SharedBlock(byte[] handle, long offset) {}
