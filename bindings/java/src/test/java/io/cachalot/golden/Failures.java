// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.golden;

import io.cachalot.SimCall;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** The words that let calls of the device fail. */
final class Failures {
  private static final Set<SimCall> ALLOCATING =
      EnumSet.of(SimCall.ALLOCATE, SimCall.CREATE, SimCall.POOL_ALLOCATE, SimCall.HOST_ALLOCATE);
  private static final Set<SimCall> OBTAINING = EnumSet.of(
      SimCall.ALLOCATE, SimCall.RESERVE, SimCall.CREATE, SimCall.POOL_ALLOCATE, SimCall.HOST_ALLOCATE);
  private static final Set<SimCall> EVENTS =
      EnumSet.of(SimCall.EVENT_CREATE, SimCall.EVENT_RECORD, SimCall.EVENT_QUERY);
  private static final int OUT_OF_MEMORY = 2;

  private final Script script;
  /** The codes of those that were ordered last. */
  private final Map<Set<SimCall>, Integer> ordered = new HashMap<>();

  Failures(Script script) {
    this.script = script;
  }

  void run(String word, Words words) {
    switch (word) {
      case "fail" -> {
        long count = words.number();
        order(ALLOCATING, count == 0 ? 0 : OUT_OF_MEMORY, words.numberOr(0), count);
      }
      case "error" -> orderOne(OBTAINING, words);
      case "event_error" -> orderOne(EVENTS, words);
      case "free_error" -> orderOne(EnumSet.of(SimCall.HOST_FREE), words);
      case "pending_error" -> script.sim.setPendingError((int) words.signed());
      default -> script.ownFailures = words.number();
    }
  }

  private void orderOne(Set<SimCall> calls, Words words) {
    int code = (int) words.signed();
    order(calls, code, words.numberOr(0), 1);
  }

  /**
   * Lets calls fail, instead of what was ordered for them before. Code 0 only calls that off, for which {@code sim} has
   * no word: a failure of the same code that never comes takes its place.
   */
  void order(Set<SimCall> calls, int code, long after, long count) {
    Integer former = ordered.put(calls, code);
    if (former != null && former != 0 && former != code) {
      script.sim.fail(calls, former, Long.MAX_VALUE, 1);
    }
    if (code != 0) {
      script.sim.fail(calls, code, after, count);
    }
  }

  void callOff() {
    Set.copyOf(ordered.keySet()).forEach(calls -> order(calls, 0, 0, 0));
    script.sim.setPendingError(0);
  }
}
