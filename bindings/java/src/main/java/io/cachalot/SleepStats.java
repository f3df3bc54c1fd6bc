// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;

/**
 * What sleeps of a pool, or of all pools of a device. Bytes where nothing else is said.
 *
 * @param state that of the pool; of a device {@link PoolState#AWAKE}
 * @param pools pools that are not awake
 * @param blocks blocks that will be handed out again
 * @param allocatedBytes theirs
 * @param asleepBytes those of pages that the driver has back, and that waking needs
 * @param keptBytes those of pinned host memory that has contents
 * @param numSleeps how often pools of the device fell asleep; of a pool 0
 * @param numWakes how often they woke; of a pool 0
 */
public record SleepStats(
    PoolState state, long pools, long blocks, long allocatedBytes, long asleepBytes, long keptBytes, long numSleeps,
    long numWakes) {
  static SleepStats ask(AllocatorCore core, int device, PoolId id) {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(Native.getSleepStats(scratch.handle, device, id.first(), id.second(),
          scratch.sized(Structs.SleepStats.SIZE), scratch.error));
      return of(Structs.SleepStats.read(scratch.memory(), Scratch.struct()));
    }
  }

  private static SleepStats of(Structs.SleepStats from) {
    return new SleepStats(
        PoolState.of(from.state), from.pools, from.blocks, from.allocatedBytes, from.asleepBytes, from.keptBytes,
        from.numSleeps, from.numWakes);
  }
}
