// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What JDK Flight Recorder gets, and what it does not keep. */
final class FlightTest {
  private static final long MIB = 1 << 20;
  @TempDir
  private Path folder;

  private static Allocator over(Sim sim) {
    return Allocator.builder().driver(sim).options("").build();
  }

  private List<RecordedEvent> stop(Recording recording, String name) throws Exception {
    Path file = folder.resolve("recording.jfr");
    recording.stop();
    recording.dump(file);
    return RecordingFile.readAllEvents(file).stream()
        .filter(event -> event.getEventType().getName().equals("io.cachalot." + name)).toList();
  }

  private static void fail(Allocator allocator) {
    assertThrows(OutOfDeviceMemoryException.class, () -> allocator.allocate(1L << 40));
  }

  @Test
  void statisticsAreThoseOfEachDevice() throws Exception {
    try (Recording recording = new Recording(); Sim sim = Sim.create(1 << 30, 2); Allocator allocator = over(sim);
        Block block = allocator.allocate(3 * MIB, 1, 0)) {
      recording.enable("io.cachalot.Statistics").withPeriod(Duration.ofMillis(20));
      recording.start();
      Thread.sleep(200);
      List<RecordedEvent> events = stop(recording, "Statistics").stream()
          .filter(event -> event.getLong("allocator") == allocator.handle()).toList();
      assertTrue(events.size() >= 2, events.toString());
      for (RecordedEvent event : events) {
        Stats stats = allocator.stats(event.getInt("device"));
        assertEquals(stats.allocatedBytes().all().current(), event.getLong("allocatedBytes"));
        assertEquals(stats.reservedBytes().all().peak(), event.getLong("reservedPeakBytes"));
        assertEquals(stats.allocation().all().allocated(), event.getLong("allocations"));
      }
      assertTrue(events.stream().anyMatch(event -> event.getLong("allocatedBytes") == 3 * MIB));
    }
  }

  @Test
  void anOutOfMemoryErrorHasItsNumbersAndItsStack() throws Exception {
    try (Recording recording = new Recording(); Sim sim = Sim.create(1 << 30); Allocator allocator = over(sim)) {
      recording.enable("io.cachalot.OutOfMemory");
      recording.start();
      fail(allocator);
      // One that is made while a recording runs.
      try (Allocator later = over(sim)) {
        fail(later);
      }
      List<RecordedEvent> events = stop(recording, "OutOfMemory");
      assertEquals(2, events.size());
      assertEquals(allocator.handle(), events.get(0).getLong("allocator"));
      assertEquals(1L << 40, events.get(0).getLong("requestedBytes"));
      assertEquals(1L << 30, events.get(0).getLong("deviceTotalBytes"));
      assertTrue(events.get(1).getStackTrace().getFrames().stream()
          .anyMatch(frame -> frame.getMethod().getType().getName().equals(FlightTest.class.getName())));
    }
  }

  @Test
  void segmentsAreRecordedOnDemandOnly() throws Exception {
    try (Recording recording = new Recording(); Sim sim = Sim.create(1 << 30); Allocator allocator = over(sim)) {
      recording.start();
      allocator.allocate(MIB).close();
      assertEquals(List.of(), stop(recording, "SegmentAllocated"));
    }
    try (Recording recording = new Recording(); Sim sim = Sim.create(1 << 30); Allocator allocator = over(sim)) {
      recording.enable("io.cachalot.SegmentAllocated");
      recording.enable("io.cachalot.SegmentFreed");
      recording.start();
      allocator.allocate(MIB).close();
      allocator.setExpandableSegments(true);
      allocator.allocate(30 * MIB).close();
      allocator.emptyCache();
      List<RecordedEvent> obtained = stop(recording, "SegmentAllocated");
      List<RecordedEvent> given = RecordingFile.readAllEvents(folder.resolve("recording.jfr")).stream()
          .filter(event -> event.getEventType().getName().equals("io.cachalot.SegmentFreed")).toList();
      assertEquals(List.of(false, true), obtained.stream().map(event -> event.getBoolean("expandable")).toList());
      assertEquals(List.of(2 * MIB, 40 * MIB), obtained.stream().map(event -> event.getLong("bytes")).toList());
      assertEquals(42 * MIB, given.stream().mapToLong(event -> event.getLong("bytes")).sum());
    }
  }

  @Test
  void noObserverIsLeftBehindARecording() {
    try (Recording recording = new Recording(); Sim sim = Sim.create(1 << 30); Allocator allocator = over(sim)) {
      int before = allocator.listeners.size();
      recording.enable("io.cachalot.OutOfMemory");
      recording.enable("io.cachalot.SegmentFreed");
      recording.start();
      assertEquals(before + 2, allocator.listeners.size());
      recording.stop();
      assertEquals(before, allocator.listeners.size());
    }
  }

  @Test
  void aJavaWithoutTheRecorderHasAllElse() throws Exception {
    List<String> arguments = List.of("--limit-modules", "java.base", "-cp", System.getProperty("java.class.path"),
        LoadProbe.class.getName());
    assertTrue(Jvm.run(List.of(), Map.of(), arguments).contains("found: the jar"));
  }

  private static WeakReference<Allocator> forget(Sim sim) {
    return new WeakReference<>(over(sim));
  }

  @Test
  void aRecordingKeepsNoAllocator() throws Exception {
    try (Recording recording = new Recording(); Sim sim = Sim.create(1 << 30)) {
      recording.enable("io.cachalot.SegmentAllocated");
      recording.start();
      WeakReference<Allocator> forgotten = forget(sim);
      LifeTest.eventually("the collector ends it", () -> forgotten.get() == null);
    }
  }
}
