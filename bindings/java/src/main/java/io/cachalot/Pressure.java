// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/**
 * What a tenant's callback is asked.
 *
 * @param reason why it is asked
 * @param device on which device
 * @param missingBytes how many bytes would make room, as far as is known
 * @param allocatedBytes what the tenant that is asked has
 * @param guaranteedBytes what it is guaranteed
 * @param requester for whom: the id of the tenant; 0: the default one
 * @param requesterName its name
 * @param requesterPriority its priority
 * @param isGuaranteed whether the request is within that tenant's guarantee
 */
public record Pressure(
    PressureReason reason, int device, long missingBytes, long allocatedBytes, long guaranteedBytes, long requester,
    String requesterName, int requesterPriority, boolean isGuaranteed) {
  static Pressure of(Structs.Pressure from) {
    return new Pressure(
        PressureReason.of(from.reason), from.device, from.missingBytes, from.allocatedBytes, from.guaranteedBytes,
        from.requester, from.requesterName, from.requesterPriority, from.isGuaranteed != 0);
  }
}
