// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.MemoryAddress;
import jdk.jfr.Name;

/**
 * Memory that comes from the driver or goes back to it. Off unless a recording asks for it: the library's observers
 * are told of each block too, so that each call comes back to Java while these are recorded.
 */
abstract class SegmentEvent extends Event {
  @Label("Allocator")
  @MemoryAddress
  long allocator;

  @Label("Device")
  int device;

  @Label("Address")
  @MemoryAddress
  long address;

  @Label("Size")
  @DataAmount
  long bytes;

  @Label("Stream")
  @MemoryAddress
  long stream;

  @Label("Expandable")
  @Description("Whether it is a range of an expandable segment")
  boolean expandable;

  @Name("io.cachalot.SegmentAllocated")
  @Label("Segment Allocated")
  @Category("cachalot")
  @Enabled(false)
  static final class Allocated extends SegmentEvent {}

  @Name("io.cachalot.SegmentFreed")
  @Label("Segment Freed")
  @Category("cachalot")
  @Enabled(false)
  static final class Freed extends SegmentEvent {}

  static boolean isAnyEnabled() {
    return new Allocated().isEnabled() || new Freed().isEnabled();
  }

  /** Nothing for an entry about a block. */
  static void record(AllocatorCore core, TraceEntry entry) {
    switch (entry.action()) {
      case SEGMENT_ALLOC:
      case SEGMENT_MAP:
        new Allocated().commit(core, entry, entry.action() == Action.SEGMENT_MAP);
        break;
      case SEGMENT_FREE:
      case SEGMENT_UNMAP:
        new Freed().commit(core, entry, entry.action() == Action.SEGMENT_UNMAP);
        break;
      default:
        break;
    }
  }

  final void commit(AllocatorCore core, TraceEntry entry, boolean isExpandable) {
    allocator = core.address();
    device = entry.device();
    address = entry.address();
    bytes = entry.size();
    stream = entry.stream();
    expandable = isExpandable;
    commit();
  }
}
