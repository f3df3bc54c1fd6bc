// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.MemoryAddress;
import jdk.jfr.Name;

@Name("io.cachalot.OutOfMemory")
@Label("Out of Device Memory")
@Category("cachalot")
@Description("A request that failed, on its thread, before the caller gets the error")
final class OutOfMemoryEvent extends Event {
  @Label("Allocator")
  @MemoryAddress
  private long allocator;

  @Label("Device")
  private int device;

  @Label("Stream")
  @MemoryAddress
  private long stream;

  @Label("Requested")
  @DataAmount
  private long requestedBytes;

  @Label("Segment Size")
  @DataAmount
  private long segmentBytes;

  @Label("Device Free")
  @DataAmount
  private long deviceFreeBytes;

  @Label("Device Total")
  @DataAmount
  private long deviceTotalBytes;

  @Label("Limit")
  @Description("0 without one")
  @DataAmount
  private long limitBytes;

  @Label("Allocated")
  @DataAmount
  private long allocatedBytes;

  @Label("Reserved")
  @DataAmount
  private long reservedBytes;

  @Label("Free in Private Pools")
  @DataAmount
  private long privatePoolsFreeBytes;

  @Label("Largest Free Block")
  @DataAmount
  private long largestFreeBlockBytes;

  static void record(AllocatorCore core, OutOfMemory numbers) {
    OutOfMemoryEvent event = new OutOfMemoryEvent();
    event.allocator = core.address();
    event.device = numbers.device();
    event.stream = numbers.stream();
    event.requestedBytes = numbers.requested();
    event.segmentBytes = numbers.segmentSize();
    event.deviceFreeBytes = numbers.deviceFree();
    event.deviceTotalBytes = numbers.deviceTotal();
    event.limitBytes = numbers.limit();
    event.allocatedBytes = numbers.allocated();
    event.reservedBytes = numbers.reserved();
    event.privatePoolsFreeBytes = numbers.privatePoolsFree();
    event.largestFreeBlockBytes = numbers.largestFreeBlock();
    event.commit();
  }
}
