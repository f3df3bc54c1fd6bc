// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * The segment that a block is a piece of.
 *
 * @param address its first byte
 * @param size its bytes
 */
public record BaseAllocation(long address, long size) {
}
