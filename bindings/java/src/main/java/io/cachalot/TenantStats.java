// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;
import java.util.OptionalLong;

/**
 * What one tenant has on one device.
 *
 * @param id ascending in the order of creation, never used again; 0: the default tenant
 * @param name its name
 * @param device the device
 * @param priority its priority
 * @param guaranteedBytes what it is guaranteed there
 * @param limitBytes what it can have at most there
 * @param allocation blocks that it has
 * @param allocatedBytes their bytes
 * @param requestedBytes what was requested of them
 * @param numOoms its requests that ended as out of memory
 * @param numPressureCalls how often its callback was called
 * @param pressureFreedBytes by how many bytes what it has sank meanwhile
 * @param asleepBytes those of its blocks whose pools sleep, which the figures above leave out
 */
public record TenantStats(
    long id, String name, int device, int priority, long guaranteedBytes, OptionalLong limitBytes, Stat allocation,
    Stat allocatedBytes, Stat requestedBytes, long numOoms, long numPressureCalls, long pressureFreedBytes,
    long asleepBytes) {
  static TenantStats of(Structs.TenantStats from) {
    return new TenantStats(
        from.id, from.name, from.device, from.priority, from.guaranteedBytes, from.limitBytes == 0 ?
        OptionalLong.empty() : OptionalLong.of(from.limitBytes), Stat.of(from.allocation),
        Stat.of(from.allocatedBytes), Stat.of(from.requestedBytes), from.numOoms, from.numPressureCalls,
        from.pressureFreedBytes, from.asleepBytes);
  }
}
