// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;
import java.util.Objects;

/** How history is recorded. */
public final class HistoryOptions {
  final Structs.HistoryOptions values = new Structs.HistoryOptions();

  private HistoryOptions() {}

  /**
   * Records.
   *
   * @param maxEntries how many entries of a device are kept
   * @return options to be changed
   */
  public static HistoryOptions recording(long maxEntries) {
    return new HistoryOptions().enabled(true).maxEntries(maxEntries);
  }

  /**
   * Stops recording, and drops what there is.
   *
   * @return options to be changed
   */
  public static HistoryOptions off() {
    return new HistoryOptions();
  }

  /**
   * Whether entries are kept; those that there are go with false.
   *
   * @param on whether they are
   * @return this
   */
  public HistoryOptions enabled(boolean on) {
    values.enabled = on ? 1 : 0;
    return this;
  }

  /**
   * How many entries of a device are kept.
   *
   * @param entries 0 counts as 1
   * @return this
   */
  public HistoryOptions maxEntries(long entries) {
    values.maxEntries = Arguments.size(entries, "entries");
    return this;
  }

  /**
   * For what contexts are kept.
   *
   * @param level the level
   * @return this
   */
  public HistoryOptions context(ContextLevel level) {
    values.context = Objects.requireNonNull(level, "level").number();
    return this;
  }

  /**
   * Whether older entries are dropped first.
   *
   * @param drop whether they are
   * @return this
   */
  public HistoryOptions clear(boolean drop) {
    values.clear = drop ? 1 : 0;
    return this;
  }

  /**
   * What is not kept.
   *
   * @param names names of actions with commas between: {@code segment_map,alloc}; "": all are kept
   * @return this
   */
  public HistoryOptions skipActions(String names) {
    values.skipActions = Arguments.text(names, "names");
    return this;
  }
}
