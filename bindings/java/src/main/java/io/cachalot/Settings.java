// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/** The options in force, as numbers: read, change and write back to set options without a string. */
public final class Settings {
  private final Structs.Settings values;

  private Settings(Structs.Settings values) {
    this.values = values;
  }

  static Settings of(Structs.Settings from) {
    return new Settings(from);
  }

  Structs.Settings toC() {
    return values;
  }

  /**
   * Bytes; -1: unlimited.
   *
   * @return the value
   */
  public long maxSplitSize() {
    return values.maxSplitSize;
  }

  /**
   * Bytes.
   *
   * @return the value
   */
  public long maxNonSplitRoundingSize() {
    return values.maxNonSplitRoundingSize;
  }

  /**
   * Bytes.
   *
   * @return the value
   */
  public long largeSegmentSize() {
    return values.largeSegmentSize;
  }

  /**
   * 0: off; else between 0 and 1.
   *
   * @return the value
   */
  public double garbageCollectionThreshold() {
    return values.garbageCollectionThreshold;
  }

  /**
   * What the option says; the limit in force is {@link Allocator#memoryFraction}.
   *
   * @return the value
   */
  public double perProcessMemoryFraction() {
    return values.perProcessMemoryFraction;
  }

  /**
   * Divisions for sizes from 2^i MiB to below 2^(i+1) MiB, 16 of them; 0: off.
   *
   * @return the value
   */
  public List<Long> roundupPower2Divisions() {
    List<Long> divisions = new ArrayList<>();
    for (long each : values.roundupPower2Divisions) {
      divisions.add(each);
    }
    return List.copyOf(divisions);
  }

  /**
   * Requests of more bytes are not rounded by divisions; -1: all are.
   *
   * @return the value
   */
  public long roundupBypassThreshold() {
    return values.roundupBypassThreshold;
  }

  /**
   * Segments that grow.
   *
   * @return whether it is on
   */
  public boolean expandableSegments() {
    return values.expandableSegments != 0;
  }

  /**
   * Other threads go on while the driver allocates.
   *
   * @return whether it is on
   */
  public boolean releaseLockOnCudamalloc() {
    return values.releaseLockOnCudamalloc != 0;
  }

  /**
   * Blocks freed during a capture are reused in it where the graph's order allows.
   *
   * @return whether it is on
   */
  public boolean graphCaptureRecordStreamReuse() {
    return values.graphCaptureRecordStreamReuse != 0;
  }

  /**
   * Refuses what would exceed the limit before asking the driver.
   *
   * @return whether it is on
   */
  public boolean throwOnCudamallocOom() {
    return values.throwOnCudamallocOom != 0;
  }

  /**
   * Whether a thread of its own looks for pinned blocks whose streams are done.
   *
   * @return whether it is on
   */
  public boolean pinnedUseBackgroundThreads() {
    return values.pinnedUseBackgroundThreads != 0;
  }

  /**
   * Whether pinned memory is ordinary memory that is registered with the driver.
   *
   * @return whether it is on
   */
  public boolean pinnedUseCudaHostRegister() {
    return values.pinnedUseCudaHostRegister != 0;
  }

  /**
   * Kept, and without effect, since a free of pinned memory loses nothing here.
   *
   * @return whether it is on
   */
  public boolean pinnedFreeCatchAll() {
    return values.pinnedFreeCatchAll != 0;
  }

  /**
   * How many threads touch pinned memory before it is registered.
   *
   * @return the value
   */
  public long pinnedNumRegisterThreads() {
    return values.pinnedNumRegisterThreads;
  }

  /**
   * How large the region is that the first pinned block obtains for all that fit, in MiB.
   *
   * @return the value
   */
  public long pinnedReserveSegmentSizeMb() {
    return values.pinnedReserveSegmentSizeMb;
  }

  /**
   * Above which size pinned blocks are not rounded up to powers of two, in bytes; -1: unset.
   *
   * @return the value
   */
  public long pinnedMaxRoundThreshold() {
    return values.pinnedMaxRoundThreshold;
  }

  /**
   * Above which size pinned blocks go back to the driver when they are freed, in bytes.
   *
   * @return the value
   */
  public long pinnedMaxCachedSize() {
    return values.pinnedMaxCachedSize;
  }

  /**
   * The same settings, to be changed.
   *
   * @return a builder with these values
   */
  public Builder toBuilder() {
    Structs.Settings copy = new Structs.Settings();
    copyInto(copy);
    return new Builder(copy);
  }

  private void copyInto(Structs.Settings copy) {
    copy.maxSplitSize = values.maxSplitSize;
    copy.maxNonSplitRoundingSize = values.maxNonSplitRoundingSize;
    copy.largeSegmentSize = values.largeSegmentSize;
    copy.garbageCollectionThreshold = values.garbageCollectionThreshold;
    copy.perProcessMemoryFraction = values.perProcessMemoryFraction;
    copy.roundupPower2Divisions = values.roundupPower2Divisions.clone();
    copy.roundupBypassThreshold = values.roundupBypassThreshold;
    copy.expandableSegments = values.expandableSegments;
    copy.releaseLockOnCudamalloc = values.releaseLockOnCudamalloc;
    copy.graphCaptureRecordStreamReuse = values.graphCaptureRecordStreamReuse;
    copy.throwOnCudamallocOom = values.throwOnCudamallocOom;
    copy.pinnedUseBackgroundThreads = values.pinnedUseBackgroundThreads;
    copy.pinnedUseCudaHostRegister = values.pinnedUseCudaHostRegister;
    copy.pinnedFreeCatchAll = values.pinnedFreeCatchAll;
    copy.pinnedNumRegisterThreads = values.pinnedNumRegisterThreads;
    copy.pinnedReserveSegmentSizeMb = values.pinnedReserveSegmentSizeMb;
    copy.pinnedMaxRoundThreshold = values.pinnedMaxRoundThreshold;
    copy.pinnedMaxCachedSize = values.pinnedMaxCachedSize;
  }

  /** Settings under change. */
  public static final class Builder {
    private Structs.Settings values;

    private Builder(Structs.Settings values) {
      this.values = values;
    }

    /**
     * Bytes; -1: unlimited.
     *
     * @param value the value
     * @return this
     */
    public Builder maxSplitSize(long value) {
      values.maxSplitSize = value;
      return this;
    }

    /**
     * Bytes.
     *
     * @param value the value
     * @return this
     */
    public Builder maxNonSplitRoundingSize(long value) {
      values.maxNonSplitRoundingSize = value;
      return this;
    }

    /**
     * Bytes.
     *
     * @param value the value
     * @return this
     */
    public Builder largeSegmentSize(long value) {
      values.largeSegmentSize = value;
      return this;
    }

    /**
     * 0: off; else between 0 and 1.
     *
     * @param value the value
     * @return this
     */
    public Builder garbageCollectionThreshold(double value) {
      values.garbageCollectionThreshold = value;
      return this;
    }

    /**
     * What the option says; the limit in force is {@link Allocator#memoryFraction}.
     *
     * @param value the value
     * @return this
     */
    public Builder perProcessMemoryFraction(double value) {
      values.perProcessMemoryFraction = value;
      return this;
    }

    /**
     * Divisions for sizes from 2^i MiB to below 2^(i+1) MiB, 16 of them; 0: off.
     *
     * @param value the value
     * @return this
     */
    public Builder roundupPower2Divisions(List<Long> value) {
      if (Objects.requireNonNull(value, "value").size() != values.roundupPower2Divisions.length) {
        throw new IllegalArgumentException("there are 16 divisions, not " + value.size());
      }
      values.roundupPower2Divisions = value.stream().mapToLong(each -> Objects.requireNonNull(each, "value")).toArray();
      return this;
    }

    /**
     * Requests of more bytes are not rounded by divisions; -1: all are.
     *
     * @param value the value
     * @return this
     */
    public Builder roundupBypassThreshold(long value) {
      values.roundupBypassThreshold = value;
      return this;
    }

    /**
     * Segments that grow.
     *
     * @param value whether it is on
     * @return this
     */
    public Builder expandableSegments(boolean value) {
      values.expandableSegments = value ? 1 : 0;
      return this;
    }

    /**
     * Other threads go on while the driver allocates.
     *
     * @param value whether it is on
     * @return this
     */
    public Builder releaseLockOnCudamalloc(boolean value) {
      values.releaseLockOnCudamalloc = value ? 1 : 0;
      return this;
    }

    /**
     * Blocks freed during a capture are reused in it where the graph's order allows.
     *
     * @param value whether it is on
     * @return this
     */
    public Builder graphCaptureRecordStreamReuse(boolean value) {
      values.graphCaptureRecordStreamReuse = value ? 1 : 0;
      return this;
    }

    /**
     * Refuses what would exceed the limit before asking the driver.
     *
     * @param value whether it is on
     * @return this
     */
    public Builder throwOnCudamallocOom(boolean value) {
      values.throwOnCudamallocOom = value ? 1 : 0;
      return this;
    }

    /**
     * Whether a thread of its own looks for pinned blocks whose streams are done.
     *
     * @param value whether it is on
     * @return this
     */
    public Builder pinnedUseBackgroundThreads(boolean value) {
      values.pinnedUseBackgroundThreads = value ? 1 : 0;
      return this;
    }

    /**
     * Whether pinned memory is ordinary memory that is registered with the driver.
     *
     * @param value whether it is on
     * @return this
     */
    public Builder pinnedUseCudaHostRegister(boolean value) {
      values.pinnedUseCudaHostRegister = value ? 1 : 0;
      return this;
    }

    /**
     * Kept, and without effect, since a free of pinned memory loses nothing here.
     *
     * @param value whether it is on
     * @return this
     */
    public Builder pinnedFreeCatchAll(boolean value) {
      values.pinnedFreeCatchAll = value ? 1 : 0;
      return this;
    }

    /**
     * How many threads touch pinned memory before it is registered.
     *
     * @param value the value
     * @return this
     */
    public Builder pinnedNumRegisterThreads(long value) {
      values.pinnedNumRegisterThreads = value;
      return this;
    }

    /**
     * How large the region is that the first pinned block obtains for all that fit, in MiB.
     *
     * @param value the value
     * @return this
     */
    public Builder pinnedReserveSegmentSizeMb(long value) {
      values.pinnedReserveSegmentSizeMb = value;
      return this;
    }

    /**
     * Above which size pinned blocks are not rounded up to powers of two, in bytes; -1: unset.
     *
     * @param value the value
     * @return this
     */
    public Builder pinnedMaxRoundThreshold(long value) {
      values.pinnedMaxRoundThreshold = value;
      return this;
    }

    /**
     * Above which size pinned blocks go back to the driver when they are freed, in bytes.
     *
     * @param value the value
     * @return this
     */
    public Builder pinnedMaxCachedSize(long value) {
      values.pinnedMaxCachedSize = value;
      return this;
    }

    /**
     * The settings so far; the builder can go on.
     *
     * @return settings for {@link Allocator#setSettings}
     */
    public Settings build() {
      Settings built = new Settings(values);
      values = built.toBuilder().values;
      return built;
    }
  }
}
