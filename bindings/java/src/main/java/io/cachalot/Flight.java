// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

/** Events for JDK Flight Recorder, where there is one: a Java may lack the module {@code jdk.jfr}. */
interface Flight {
  /** Lets recordings have the events of an allocator, until that has ended. */
  void watch(Allocator allocator);

  /** Its allocator has ended; of any other one: nothing. */
  void forget(AllocatorCore core);

  /** What there is. */
  static Flight recorder() {
    return Found.RECORDER;
  }

  /** Done once. */
  final class Found {
    static final Flight RECORDER = find();

    private Found() {}

    private static Flight find() {
      try {
        return FlightEvents.find();
      } catch (LinkageError absent) {
        return new None();
      }
    }
  }

  /** Without the module. */
  final class None implements Flight {
    @Override
    public void watch(Allocator allocator) {}

    @Override
    public void forget(AllocatorCore core) {}
  }
}
