// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.MemoryAddress;
import jdk.jfr.Name;
import jdk.jfr.Period;
import jdk.jfr.StackTrace;

@Name("io.cachalot.Statistics")
@Label("Allocator Statistics")
@Category("cachalot")
@Description("What an allocator has of a device, from Allocator.stats")
@Period("1 s")
@StackTrace(false)
final class StatisticsEvent extends Event {
  @Label("Allocator")
  @MemoryAddress
  private long allocator;

  @Label("Of Pinned Memory")
  private boolean pinned;

  @Label("Device")
  private int device;

  @Label("Allocated")
  @DataAmount
  private long allocatedBytes;

  @Label("Allocated Peak")
  @DataAmount
  private long allocatedPeakBytes;

  @Label("Requested")
  @DataAmount
  private long requestedBytes;

  @Label("Active")
  @DataAmount
  private long activeBytes;

  @Label("Reserved")
  @DataAmount
  private long reservedBytes;

  @Label("Reserved Peak")
  @DataAmount
  private long reservedPeakBytes;

  @Label("Inactive Split")
  @DataAmount
  private long inactiveSplitBytes;

  @Label("Allocated Blocks")
  private long allocatedBlocks;

  @Label("Segments")
  private long segments;

  @Label("Allocations")
  private long allocations;

  @Label("Frees")
  private long frees;

  @Label("Device Allocations")
  private long deviceAllocs;

  @Label("Device Frees")
  private long deviceFrees;

  @Label("Retries")
  private long allocRetries;

  @Label("Out of Memory Errors")
  private long ooms;

  static void record(AllocatorCore core, boolean isPinned, int device, Stats stats) {
    StatisticsEvent event = new StatisticsEvent();
    event.allocator = core.address();
    event.pinned = isPinned;
    event.device = device;
    event.allocatedBytes = stats.allocatedBytes().all().current();
    event.allocatedPeakBytes = stats.allocatedBytes().all().peak();
    event.requestedBytes = stats.requestedBytes().all().current();
    event.activeBytes = stats.activeBytes().all().current();
    event.reservedBytes = stats.reservedBytes().all().current();
    event.reservedPeakBytes = stats.reservedBytes().all().peak();
    event.inactiveSplitBytes = stats.inactiveSplitBytes().all().current();
    event.allocatedBlocks = stats.allocation().all().current();
    event.segments = stats.segment().all().current();
    event.allocations = stats.allocation().all().allocated();
    event.frees = stats.allocation().all().freed();
    event.deviceAllocs = stats.numDeviceAlloc();
    event.deviceFrees = stats.numDeviceFree();
    event.allocRetries = stats.numAllocRetries();
    event.ooms = stats.numOoms();
    event.commit();
  }
}
