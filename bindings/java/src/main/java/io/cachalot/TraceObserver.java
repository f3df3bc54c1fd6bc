// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/** Sees each event as it happens. What it throws goes to its thread's handler of uncaught exceptions. */
@FunctionalInterface
public interface TraceObserver {
  /**
   * An event. The device's lock is held: it must not call the library, which answers with an exception.
   *
   * @param entry the event
   */
  void event(TraceEntry entry);
}
