// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import jdk.jfr.FlightRecorder;
import jdk.jfr.FlightRecorderListener;
import jdk.jfr.Recording;

/**
 * The allocators that there are. One of them has observers only while a recording wants what they see. The recorder
 * has a reference to this only while there are allocators, so that it does not keep the class loader.
 */
final class FlightEvents implements Flight, FlightRecorderListener {
  private final Map<AllocatorCore, WeakReference<Watched>> all = new ConcurrentHashMap<>();
  private final Runnable statistics = this::recordStatistics;

  private FlightEvents() {}

  /** The recorder itself is started by the first recording, not by this. */
  static Flight find() {
    return FlightRecorder.isAvailable() ? new FlightEvents() : new None();
  }

  @Override
  public void watch(Allocator allocator) {
    Watched watched = new Watched(allocator);
    allocator.watched = watched;
    synchronized (this) {
      if (all.isEmpty()) {
        FlightRecorder.addListener(this);
      }
      all.put(allocator.core, new WeakReference<>(watched));
    }
    if (FlightRecorder.isInitialized()) {
      watched.ifOpen(Watched::observe);
    }
  }

  @Override
  public synchronized void forget(AllocatorCore core) {
    if (all.remove(core) != null && all.isEmpty()) {
      FlightRecorder.removeListener(this);
      FlightRecorder.removePeriodicEvent(statistics);
    }
  }

  /** Without this object's lock: the recorder may have one of its own. */
  @Override
  public void recorderInitialized(FlightRecorder recorder) {
    FlightRecorder.addPeriodicEvent(StatisticsEvent.class, statistics);
  }

  @Override
  public void recordingStateChanged(Recording recording) {
    forEach(Watched::observe);
  }

  private void recordStatistics() {
    forEach(Watched::recordStatistics);
  }

  private void forEach(Consumer<Watched> action) {
    for (WeakReference<Watched> each : all.values()) {
      Watched watched = each.get();
      if (watched != null) {
        watched.ifOpen(action);
      }
    }
  }

  /** The allocator has it, and it has the allocator, as its observers do. */
  private static final class Watched {
    private final Allocator allocator;
    private Observer outOfMemory;
    private Observer trace;

    Watched(Allocator allocator) {
      this.allocator = allocator;
    }

    void ifOpen(Consumer<Watched> action) {
      try {
        action.accept(this);
      } catch (IllegalStateException | DriverException refused) {
        // It was closed meanwhile, or its driver does not tell: there is nothing to record.
        return;
      }
    }

    synchronized void observe() {
      AllocatorCore core = allocator.core;
      outOfMemory = observe(outOfMemory, new OutOfMemoryEvent().isEnabled(),
          () -> allocator.observeOutOfMemory(numbers -> OutOfMemoryEvent.record(core, numbers)));
      trace = observe(trace, SegmentEvent.isAnyEnabled(),
          () -> allocator.observeTrace(entry -> SegmentEvent.record(core, entry)));
    }

    private static Observer observe(Observer present, boolean isWanted, Supplier<Observer> attach) {
      if (isWanted == (present != null)) {
        return present;
      }
      if (isWanted) {
        return attach.get();
      }
      present.close();
      return null;
    }

    /** The settings of a recording may have changed since it began, and no listener is told that. */
    void recordStatistics() {
      observe();
      recordStatistics(allocator, false);
      allocator.pinnedAllocator().ifPresent(pinned -> recordStatistics(pinned, true));
    }

    private static void recordStatistics(Allocator allocator, boolean isPinned) {
      for (int device = 0; device < allocator.deviceCount(); device++) {
        StatisticsEvent.record(allocator.core, isPinned, device, allocator.stats(device));
      }
    }
  }
}
