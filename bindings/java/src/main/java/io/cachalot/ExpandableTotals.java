// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/**
 * The address space that all expandable segments of all devices reserve.
 *
 * @param bytes the address space
 * @param count the number of segments
 */
public record ExpandableTotals(long bytes, long count) {
}
