// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;

/** What can be asked of an {@link Allocator}, and its limits and options: half of its methods. */
abstract class AllocatorState {
  final AllocatorCore core;

  AllocatorState(AllocatorCore core) {
    this.core = core;
  }

  // ---- What it is -----------------------------------------------------------------------------------

  /**
   * The kind of its driver.
   *
   * @return {@code cuda}, {@code host}, {@code sim} or {@code custom}
   */
  public String driverName() {
    try (Scratch scratch = Scratch.enter(core)) {
      return Memory.textOf(Native.driverName(Native.allocatorDriver(scratch.handle)));
    }
  }

  /**
   * How many devices its driver has.
   *
   * @return the number
   */
  public int deviceCount() {
    try (Scratch scratch = Scratch.enter(core)) {
      return Native.driverDeviceCount(Native.allocatorDriver(scratch.handle));
    }
  }

  /**
   * The PyTorch release whose decisions it makes.
   *
   * @return the release
   */
  public Release release() {
    try (Scratch scratch = Scratch.enter(core)) {
      return Release.find(Native.allocatorRelease(scratch.handle)).orElseThrow();
    }
  }

  /**
   * The policy in force, with the size of its pages. It lasts as long as the allocator.
   *
   * @return the policy
   */
  public Policy policy() {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(Native.getPolicy(scratch.handle, scratch.sized(Structs.Policy.SIZE), scratch.error));
      return Policy.of(Structs.Policy.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * What serves requests, as the option {@code backend} chose.
   *
   * @return {@code native} or {@code cudaMallocAsync}
   */
  public String backend() {
    try (Scratch scratch = Scratch.enter(core)) {
      return Memory.textOf(Native.allocatorBackend(scratch.handle));
    }
  }

  /**
   * The native allocator, for programs that mix this package with code in C.
   *
   * @return the {@code cachalot_allocator*}, which lives until this is closed
   */
  public long handle() {
    long address = core.address();
    if (address == 0) {
      throw core.closed();
    }
    return address;
  }

  // ---- Limits and options ---------------------------------------------------------------------------

  /**
   * Limits what the allocator may obtain from a device. Releases nothing.
   *
   * @param device the device
   * @param fraction of the device's memory, 0 to 1; 1: no limit
   * @throws IllegalArgumentException for any other number
   */
  public void setMemoryFraction(int device, double fraction) {
    core.call((allocator, error) -> Native.setMemoryFraction(allocator, device, fraction, error));
  }

  /**
   * The fraction in force.
   *
   * @param device the device
   * @return the limit over the device's memory; 1 without a limit
   */
  public double memoryFraction(int device) {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(Native.memoryFraction(scratch.handle, device, scratch.out, scratch.error));
      return scratch.outDouble();
    }
  }

  /**
   * The same limit in bytes.
   *
   * @param device the device
   * @param bytes the limit; empty: none
   * @throws IllegalArgumentException for a negative number
   */
  public void setMemoryLimit(int device, OptionalLong bytes) {
    Objects.requireNonNull(bytes, "bytes").ifPresent(limit -> Arguments.size(limit, "bytes"));
    core.call((allocator, error) -> Native.setMemoryLimit(allocator, device, bytes.orElse(-1), error));
  }

  /**
   * The limit in force in bytes.
   *
   * @param device the device
   * @return the limit, if there is one
   */
  public OptionalLong memoryLimit(int device) {
    long limit = core.ask((allocator, out, error) -> Native.memoryLimit(allocator, device, out, error));
    return limit == -1 ? OptionalLong.empty() : OptionalLong.of(limit);
  }

  /**
   * Changes options at run time. As in PyTorch, options that are not named are kept or reset ({@code
   * docs/config.md}), and a string with an error has applied what stands before the error.
   *
   * @param config the option string
   * @throws IllegalArgumentException for a string that is not acceptable
   */
  public void configure(String config) {
    core.tell(Objects.requireNonNull(config, "config"), Native::configure);
  }

  /**
   * The same.
   *
   * @param config the options
   */
  public void configure(Options config) {
    configure(Objects.requireNonNull(config, "config").toString());
  }

  /**
   * The last option string.
   *
   * @return the text, word for word
   */
  public String options() {
    return core.text(Native::getConfig);
  }

  /**
   * The options in force, as numbers.
   *
   * @return the settings
   */
  public Settings settings() {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(Native.getSettings(scratch.handle, scratch.sized(Structs.Settings.SIZE), scratch.error));
      return Settings.of(Structs.Settings.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * Sets all options at once.
   *
   * @param settings the settings
   * @throws IllegalArgumentException for a value out of its range: nothing is changed
   */
  public void setSettings(Settings settings) {
    Objects.requireNonNull(settings, "settings");
    try (Memory memory = new Memory()) {
      long address = settings.toC().write(memory);
      core.call((allocator, error) -> Native.setSettings(allocator, address, error));
    }
  }

  /**
   * Sets the options that the string names and leaves all others as they are, whatever other threads set
   * meanwhile ({@link #configure(String)} resets some). A list that is named is replaced as a whole. {@link
   * #options} goes on to give the string of {@code configure}.
   *
   * @param config the option string
   * @throws IllegalArgumentException for a string that is not acceptable: nothing is changed
   */
  public void updateOptions(String config) {
    core.tell(Objects.requireNonNull(config, "config"), Native::updateConfig);
  }

  /**
   * The same.
   *
   * @param config the options
   */
  public void updateOptions(Options config) {
    updateOptions(Objects.requireNonNull(config, "config").toString());
  }

  // ---- One setting at a time: the others stay as they are at that moment, so that threads that set
  // ---- different ones do not undo each other's changes.

  /**
   * Blocks of this size and more are kept whole.
   *
   * @param bytes at least the large segment size; -1: unlimited.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setMaxSplitSize(long bytes) {
    core.call((allocator, error) -> Native.setMaxSplitSize(allocator, bytes, error));
  }

  /**
   * How much larger a cached block may be for a request of max_split_size and more.
   *
   * @param bytes at least the large segment size.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setMaxNonSplitRoundingSize(long bytes) {
    core.call((allocator, error) -> Native.setMaxNonSplitRoundingSize(allocator, bytes, error));
  }

  /**
   * The segment size of requests from 1 to 10 MiB, and the page size of new large expandable segments.
   *
   * @param bytes a multiple of 1 MiB above 10 MiB, at most max_split_size. max_non_split_rounding_size goes
   * with it where it has the old value, which is its default.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setLargeSegmentSize(long bytes) {
    core.call((allocator, error) -> Native.setLargeSegmentSize(allocator, bytes, error));
  }

  /**
   * From which share of the memory limit on cached segments are collected.
   *
   * @param fraction between 0 and 1; 0: off.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setGarbageCollectionThreshold(double fraction) {
    core.call((allocator, error) -> Native.setGarbageCollectionThreshold(allocator, fraction, error));
  }

  /**
   * What throw_on_cudamalloc_oom compares with.
   *
   * @param fraction of the device, 0 to 1. The limit in force stays: {@link #setMemoryFraction} changes that.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setPerProcessMemoryFraction(double fraction) {
    core.call((allocator, error) -> Native.setPerProcessMemoryFraction(allocator, fraction, error));
  }

  /**
   * Requests of more bytes are not rounded by divisions.
   *
   * @param bytes -1: all are.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setRoundupBypassThreshold(long bytes) {
    core.call((allocator, error) -> Native.setRoundupBypassThreshold(allocator, bytes, error));
  }

  /**
   * Whether new segments are made of pages.
   *
   * @param enabled whether it is on. {@link UnsupportedOperationException} for true where the driver has no
   * virtual memory.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setExpandableSegments(boolean enabled) {
    core.call((allocator, error) -> Native.setExpandableSegments(allocator, enabled ? 1 : 0, error));
  }

  /**
   * Whether other threads go on while the driver allocates.
   *
   * @param enabled whether it is on
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setReleaseLockOnCudamalloc(boolean enabled) {
    core.call((allocator, error) -> Native.setReleaseLockOnCudamalloc(allocator, enabled ? 1 : 0, error));
  }

  /**
   * Whether blocks freed during a capture are reused in it.
   *
   * @param enabled whether it is on
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setGraphCaptureRecordStreamReuse(boolean enabled) {
    core.call((allocator, error) -> Native.setGraphCaptureRecordStreamReuse(allocator, enabled ? 1 : 0, error));
  }

  /**
   * Whether requests beyond per_process_memory_fraction are refused before the driver is asked.
   *
   * @param enabled whether it is on. Since 2.12: under 2.11 true is an unknown key.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setThrowOnCudamallocOom(boolean enabled) {
    core.call((allocator, error) -> Native.setThrowOnCudamallocOom(allocator, enabled ? 1 : 0, error));
  }

  /**
   * Whether a thread of its own looks for pinned blocks whose streams are done.
   *
   * @param enabled whether it is on
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setPinnedUseBackgroundThreads(boolean enabled) {
    core.call((allocator, error) -> Native.setPinnedUseBackgroundThreads(allocator, enabled ? 1 : 0, error));
  }

  /**
   * Whether pinned memory is ordinary memory that is registered with the driver.
   *
   * @param enabled whether it is on
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setPinnedUseCudaHostRegister(boolean enabled) {
    core.call((allocator, error) -> Native.setPinnedUseCudaHostRegister(allocator, enabled ? 1 : 0, error));
  }

  /**
   * Kept, and without effect, since a free of pinned memory loses nothing here.
   *
   * @param enabled whether it is on. Since 2.12: under 2.11 true is an unknown key.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setPinnedFreeCatchAll(boolean enabled) {
    core.call((allocator, error) -> Native.setPinnedFreeCatchAll(allocator, enabled ? 1 : 0, error));
  }

  /**
   * How many threads touch pinned memory before it is registered.
   *
   * @param threads a power of two, 1 to 128.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setPinnedNumRegisterThreads(long threads) {
    core.call((allocator, error) -> Native.setPinnedNumRegisterThreads(allocator, threads, error));
  }

  /**
   * How large the region is that the first pinned block obtains for all that fit.
   *
   * @param megabytes MiB; 0: off.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setPinnedReserveSegmentSizeMb(long megabytes) {
    core.call((allocator, error) -> Native.setPinnedReserveSegmentSizeMb(allocator, megabytes, error));
  }

  /**
   * Above which size pinned blocks are not rounded up to powers of two.
   *
   * @param bytes -1: unset. Since 2.13.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setPinnedMaxRoundThreshold(long bytes) {
    core.call((allocator, error) -> Native.setPinnedMaxRoundThreshold(allocator, bytes, error));
  }

  /**
   * Above which size pinned blocks go back to the driver when they are freed.
   *
   * @param bytes -1: unset. Since 2.13.
   * @throws IllegalArgumentException in PyTorch's words: nothing is changed
   */
  public void setPinnedMaxCachedSize(long bytes) {
    core.call((allocator, error) -> Native.setPinnedMaxCachedSize(allocator, bytes, error));
  }

  /**
   * How many steps requests are rounded in between two powers of two.
   *
   * @param divisions powers of two, or 0 for off: one for all sizes, or 16 for sizes from 2^i MiB to below 2^(i+1)
   *     MiB, of which the first and last are open
   * @throws IllegalArgumentException for another number of them or other numbers: nothing is changed
   */
  public void setRoundupPower2Divisions(long... divisions) {
    Objects.requireNonNull(divisions, "divisions");
    try (Memory memory = new Memory()) {
      ByteBuffer list = memory.allocate(Math.max(Long.BYTES, Long.BYTES * divisions.length));
      list.asLongBuffer().put(divisions);
      core.call((allocator, error) ->
          Native.setRoundupPower2Divisions(allocator, Memory.addressOf(list), divisions.length, error));
    }
  }

  // ---- Devices --------------------------------------------------------------------------------------

  /**
   * Lets a device use another's memory, present and future.
   *
   * @param device the device that may
   * @param peer the device whose memory it is
   */
  public void enablePeerAccess(int device, int peer) {
    core.call((allocator, error) -> Native.enablePeerAccess(allocator, device, peer, error));
  }

  /**
   * Where a device's memory is.
   *
   * @param device the device
   * @return the numbers
   */
  public DeviceTotals deviceTotals(int device) {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(Native.getDeviceTotals(scratch.handle, device, scratch.sized(Structs.DeviceTotals.SIZE),
          scratch.error));
      return DeviceTotals.of(Structs.DeviceTotals.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * The auditor: walks everything and compares lists, indexes and counters; with {@link DebugOption#RED_ZONES} it
   * also looks behind every live block.
   *
   * @throws CachalotException with the first thing that is wrong
   * @throws IllegalStateException with the first block that was written beyond its end
   */
  public void check() {
    core.call(Native::check);
  }

  // ---- Statistics -----------------------------------------------------------------------------------

  /**
   * The statistics of a device, in one crossing of the boundary.
   *
   * @param device the device
   * @return all counters, at one moment
   * @throws IllegalArgumentException for a device that the driver does not have
   */
  public Stats stats(int device) {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(Native.getStats(scratch.handle, device, scratch.sized(Structs.Stats.SIZE), scratch.error));
      return Stats.of(Structs.Stats.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * What the policy has done on a device.
   *
   * @param device the device
   * @return its sums, and what is pinned
   * @throws IllegalArgumentException for a device that the driver does not have
   */
  public PolicyStats policyStats(int device) {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(
          Native.getPolicyStats(scratch.handle, device, scratch.sized(Structs.PolicyStats.SIZE), scratch.error));
      return PolicyStats.of(Structs.PolicyStats.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * What sleeps of all pools of a device.
   *
   * @param device the device
   * @return the numbers
   * @throws IllegalArgumentException for a device that the driver does not have
   */
  public SleepStats sleepStats(int device) {
    return SleepStats.ask(core, device, PoolId.DEFAULT);
  }

  /**
   * Sets every peak to its current value.
   *
   * @param device the device
   */
  public void resetPeakStats(int device) {
    core.call((allocator, error) -> Native.resetPeakStats(allocator, device, error));
  }

  /**
   * Sets all sums and counters of events to 0.
   *
   * @param device the device
   */
  public void resetAccumulatedStats(int device) {
    core.call((allocator, error) -> Native.resetAccumulatedStats(allocator, device, error));
  }

  /**
   * Bytes handed out.
   *
   * @param device the device
   * @return the number; 0 for a device that the driver does not have
   */
  public long memoryAllocated(int device) {
    try (Scratch scratch = Scratch.enter(core)) {
      return Native.memoryAllocated(scratch.handle, device);
    }
  }

  /**
   * The most bytes handed out since the peaks were reset.
   *
   * @param device the device
   * @return the number; 0 for a device that the driver does not have
   */
  public long maxMemoryAllocated(int device) {
    try (Scratch scratch = Scratch.enter(core)) {
      return Native.maxMemoryAllocated(scratch.handle, device);
    }
  }

  /**
   * Bytes obtained from the driver.
   *
   * @param device the device
   * @return the number; 0 for a device that the driver does not have
   */
  public long memoryReserved(int device) {
    try (Scratch scratch = Scratch.enter(core)) {
      return Native.memoryReserved(scratch.handle, device);
    }
  }

  /**
   * The most bytes obtained from the driver since the peaks were reset.
   *
   * @param device the device
   * @return the number; 0 for a device that the driver does not have
   */
  public long maxMemoryReserved(int device) {
    try (Scratch scratch = Scratch.enter(core)) {
      return Native.maxMemoryReserved(scratch.handle, device);
    }
  }

  /**
   * Bytes handed out or waiting.
   *
   * @param device the device
   * @return the number; 0 for a device that the driver does not have
   */
  public long memoryActive(int device) {
    try (Scratch scratch = Scratch.enter(core)) {
      return Native.memoryActive(scratch.handle, device);
    }
  }

  /**
   * The most bytes handed out or waiting since the peaks were reset.
   *
   * @param device the device
   * @return the number; 0 for a device that the driver does not have
   */
  public long maxMemoryActive(int device) {
    try (Scratch scratch = Scratch.enter(core)) {
      return Native.maxMemoryActive(scratch.handle, device);
    }
  }

  /**
   * The table of {@code torch.cuda.memory_summary}, byte for byte.
   *
   * @param device the device
   * @param abbreviated whether the rows by kind of pool are left out
   * @return the text
   */
  public String memorySummary(int device, boolean abbreviated) {
    return core.text((allocator, buffer, capacity, length, error) ->
        Native.memorySummary(allocator, device, abbreviated ? 1 : 0, buffer, capacity, length, error));
  }

  /**
   * The statistics of all devices as a page for Prometheus, of the type {@code text/plain; version=0.0.4;
   * charset=utf-8}.
   *
   * @return the text
   */
  public String metrics() {
    return core.text(Native::metricsText);
  }

  /**
   * Bytes reserved by each private pool that has had any.
   *
   * @param device the device
   * @return the rows, in ascending order of the ids
   */
  public List<PoolStats> poolStats(int device) {
    return core.rows((allocator, out, error) -> Native.poolStatsCount(allocator, device, out, error),
        Structs.PoolStats.SIZE, new AllocatorCore.Row<>() {
          @Override
          int ask(long allocator, long index, long out, long error) {
            return Native.poolStatsAt(allocator, device, index, out, error);
          }

          @Override
          PoolStats read(ByteBuffer from, int at) {
            return PoolStats.of(Structs.PoolStats.read(from, at));
          }
        });
  }

  /**
   * What was handed out under each label, while {@link AllocatorBuilder#trackLabels} is on.
   *
   * @param device the device
   * @return the rows, in the order of their first use: 1,000 at most, and the row "(other)" of labels whose rows
   *     have ended
   */
  public List<LabelStats> labelStats(int device) {
    return core.rows((allocator, out, error) -> Native.labelStatsCount(allocator, device, out, error),
        Structs.LabelStats.SIZE, new AllocatorCore.Row<>() {
          @Override
          int ask(long allocator, long index, long out, long error) {
            return Native.labelStatsAt(allocator, device, index, out, error);
          }

          @Override
          LabelStats read(ByteBuffer from, int at) {
            return LabelStats.of(Structs.LabelStats.read(from, at));
          }
        });
  }

  /**
   * What each tenant has; their blocks and bytes sum up to the device's.
   *
   * @param device the device
   * @return the default tenant, then the others in the order of their creation; empty without any
   */
  public List<TenantStats> tenantStats(int device) {
    return core.rows((allocator, out, error) -> Native.tenantCount(allocator, out, error),
        Structs.TenantStats.SIZE, new AllocatorCore.Row<>() {
          @Override
          int ask(long allocator, long index, long out, long error) {
            return Native.tenantStatsAt(allocator, device, index, out, error);
          }

          @Override
          TenantStats read(ByteBuffer from, int at) {
            return TenantStats.of(Structs.TenantStats.read(from, at));
          }
        });
  }

  // ---- Expandable segments --------------------------------------------------------------------------

  /**
   * The expandable segments of a device, in the order of their creation, those of the default stream left out.
   *
   * @param device the device
   * @return the list
   */
  public List<ExpandableSegment> expandableSegments(int device) {
    for (int capacity = 64; ; capacity *= 4) {
      try (Scratch scratch = Scratch.enter(core); Memory memory = new Memory()) {
        ByteBuffer rows = memory.allocate(capacity * Structs.ExpandableSegment.SIZE);
        scratch.check(Native.expandableSegments(scratch.handle, device, Memory.addressOf(rows), capacity, scratch.out,
            scratch.error));
        if (scratch.outLong() <= capacity) {
          List<ExpandableSegment> segments = new ArrayList<>();
          for (int i = 0; i < scratch.outLong(); i++) {
            segments.add(ExpandableSegment.of(
                Structs.ExpandableSegment.read(rows, i * Structs.ExpandableSegment.SIZE)));
          }
          return List.copyOf(segments);
        }
      }
    }
  }

  /**
   * The address space that all expandable segments of all devices reserve.
   *
   * @return bytes and number
   */
  public ExpandableTotals expandableTotals() {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(Native.expandableTotals(scratch.handle, scratch.out, scratch.out(1), scratch.error));
      return new ExpandableTotals(scratch.outLong(), scratch.outLong(1));
    }
  }

  /**
   * Gives a stream a reserve class.
   *
   * @param stream the stream
   * @param name the class; "" takes it away
   * @throws UnsupportedOperationException under 2.11
   */
  public void setReserveClass(long stream, String name) {
    core.tell(Objects.requireNonNull(name, "name"),
        (allocator, text, error) -> Native.setReserveClass(allocator, stream, text, error));
  }

  /**
   * A stream's reserve class.
   *
   * @param stream the stream
   * @return the class; "": none
   */
  public String reserveClass(long stream) {
    return core.text((allocator, buffer, capacity, length, error) ->
        Native.getReserveClass(allocator, stream, buffer, capacity, length, error));
  }

  /**
   * A class's reserve, where no option names one.
   *
   * @param name the class
   * @param fraction of the device's memory, above 0
   */
  public void setDefaultReserve(String name, double fraction) {
    core.tell(Objects.requireNonNull(name, "name"),
        (allocator, text, error) -> Native.setDefaultReserve(allocator, text, fraction, error));
  }

  /**
   * What a class gets on a device.
   *
   * @param device the device
   * @param name the class; "": streams without one
   * @return the numbers
   */
  public ReserveInfo reserve(int device, String name) {
    Objects.requireNonNull(name, "name");
    try (Scratch scratch = Scratch.enter(core); Memory memory = new Memory()) {
      scratch.check(Native.getReserve(scratch.handle, device, Texts.toC(memory, name),
          scratch.sized(Structs.Reserve.SIZE), scratch.error));
      return ReserveInfo.of(Structs.Reserve.read(scratch.memory(), Scratch.struct()));
    }
  }
}
