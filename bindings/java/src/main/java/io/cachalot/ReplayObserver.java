// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/** Sees what the allocator of a replay did. What it throws ends the replay, and is thrown to who replays. */
@FunctionalInterface
public interface ReplayObserver {
  /**
   * An entry of an event; an event may have several. All of the event is done and no lock is held.
   *
   * @param index that of the event in the trace
   * @param entry what the allocator did, without a context: that of the event is the trace's
   */
  void event(long index, TraceEntry entry);
}
