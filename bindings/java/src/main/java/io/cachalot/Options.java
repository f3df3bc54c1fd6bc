// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * PyTorch's option string, by name: {@code max_split_size_mb:128,garbage_collection_threshold:0.8}.
 * {@code docs/config.md} says what each option does.
 *
 * <pre>{@code
 * Options options = Options.builder().expandableSegments(true).maxSplitSizeMb(128).build();
 * }</pre>
 *
 * <p>An option that is not set is not in the string. Values are not looked at here: the library answers a string
 * that is not acceptable with PyTorch's own words.
 */
public final class Options {
  private final Map<String, String> values;

  private Options(Map<String, String> values) {
    this.values = values;
  }

  /**
   * Options by name.
   *
   * @return a builder without any
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * Reads {@code NAME:VALUE,NAME:VALUE}.
   *
   * @param text the option string; names and values are not looked at
   * @return the options
   * @throws IllegalArgumentException for a part that is no NAME:VALUE
   */
  public static Options parse(String text) {
    Objects.requireNonNull(text, "text");
    Builder builder = new Builder();
    int depth = 0;
    int start = 0;
    for (int end = 0; end <= text.length(); end++) {
      char here = end == text.length() ? ',' : text.charAt(end);
      depth += here == '[' ? 1 : here == ']' ? -1 : 0;
      if (here == ',' && (depth <= 0 || end == text.length())) {
        builder.pair(text.substring(start, end).trim());
        start = end + 1;
      }
    }
    return builder.build();
  }

  /** The option string. */
  @Override
  public String toString() {
    StringBuilder text = new StringBuilder();
    values.forEach((name, value) ->
        text.append(text.length() == 0 ? "" : ",").append(name).append(':').append(value));
    return text.toString();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Options && ((Options) other).toString().equals(toString());
  }

  @Override
  public int hashCode() {
    return toString().hashCode();
  }

  /** Which allocator serves requests. */
  public enum Backend {
    /** The caching allocator. */
    NATIVE("native"),
    /** The driver's own stream-ordered pool. */
    CUDA_MALLOC_ASYNC("cudaMallocAsync");

    private final String text;

    Backend(String text) {
      this.text = text;
    }
  }

  /** Options under change. */
  public static final class Builder {
    private final Map<String, String> values = new LinkedHashMap<>();

    private Builder() {}

    private void pair(String pair) {
      if (pair.isEmpty()) {
        return;
      }
      int colon = pair.indexOf(':');
      if (colon < 0) {
        throw new IllegalArgumentException("'" + pair + "' is no NAME:VALUE");
      }
      option(pair.substring(0, colon).trim(), pair.substring(colon + 1).trim());
    }

    /**
     * Any option by its name, also one that this version does not know.
     *
     * @param name its name
     * @param value its value
     * @return this
     */
    public Builder option(String name, Object value) {
      Objects.requireNonNull(name, "name");
      String text = Objects.requireNonNull(value, "value").toString();
      values.remove(name);
      values.put(name, text);
      return this;
    }

    private Builder flag(String name, boolean on) {
      return option(name, on ? "True" : "False");
    }

    /**
     * Blocks of this size and more are not split, and not handed to smaller requests.
     *
     * @param mib MiB
     * @return this
     */
    public Builder maxSplitSizeMb(long mib) {
      return option("max_split_size_mb", mib);
    }

    /**
     * A request of {@code max_split_size_mb} and more takes a cached block that is larger by less than this.
     *
     * @param mib MiB
     * @return this
     */
    public Builder maxNonSplitRoundingMb(long mib) {
      return option("max_non_split_rounding_mb", mib);
    }

    /**
     * Segment size for requests from 1 to 10 MiB, above 10.
     *
     * @param mib MiB
     * @return this
     */
    public Builder largeSegmentSizeMb(long mib) {
      return option("large_segment_size_mb", mib);
    }

    /**
     * Requests above this size are not rounded by divisions.
     *
     * @param mib MiB
     * @return this
     */
    public Builder roundupBypassThresholdMb(long mib) {
      return option("roundup_bypass_threshold_mb", mib);
    }

    /**
     * Above which size pinned blocks are not rounded up to powers of two.
     *
     * @param mib MiB
     * @return this
     */
    public Builder pinnedMaxRoundThresholdMb(long mib) {
      return option("pinned_max_round_threshold_mb", mib);
    }

    /**
     * Above which size pinned blocks go back to the driver when they are freed.
     *
     * @param mib MiB
     * @return this
     */
    public Builder pinnedMaxCachedSizeMb(long mib) {
      return option("pinned_max_cached_size_mb", mib);
    }

    /**
     * How large the region is that the first pinned block obtains for all that fit.
     *
     * @param mib MiB
     * @return this
     */
    public Builder pinnedReserveSegmentSizeMb(long mib) {
      return option("pinned_reserve_segment_size_mb", mib);
    }

    /**
     * How many threads touch pinned memory before it is registered.
     *
     * @param threads a power of two, 1 to 128
     * @return this
     */
    public Builder pinnedNumRegisterThreads(long threads) {
      return option("pinned_num_register_threads", threads);
    }

    /**
     * Segments that grow, page by page, in reserved address space. RDMA, peers and other processes may not
     * reach into such memory as before, and with {@code max_split_size_mb} it grows without bound ({@code
     * docs/config.md}).
     *
     * @param on whether it is on
     * @return this
     */
    public Builder expandableSegments(boolean on) {
      return flag("expandable_segments", on);
    }

    /**
     * Refuses what would exceed {@code per_process_memory_fraction} before asking the driver.
     *
     * @param on whether it is on
     * @return this
     */
    public Builder throwOnCudamallocOom(boolean on) {
      return flag("throw_on_cudamalloc_oom", on);
    }

    /**
     * Other threads go on while the driver allocates.
     *
     * @param on whether it is on
     * @return this
     */
    public Builder releaseLockOnCudamalloc(boolean on) {
      return flag("release_lock_on_cudamalloc", on);
    }

    /**
     * Blocks freed during a capture are reused in it where the graph's order allows.
     *
     * @param on whether it is on
     * @return this
     */
    public Builder graphCaptureRecordStreamReuse(boolean on) {
      return flag("graph_capture_record_stream_reuse", on);
    }

    /**
     * Whether a thread of its own looks for pinned blocks whose streams are done.
     *
     * @param on whether it is on
     * @return this
     */
    public Builder pinnedUseBackgroundThreads(boolean on) {
      return flag("pinned_use_background_threads", on);
    }

    /**
     * Whether pinned memory is ordinary memory that is registered with the driver.
     *
     * @param on whether it is on
     * @return this
     */
    public Builder pinnedUseCudaHostRegister(boolean on) {
      return flag("pinned_use_cuda_host_register", on);
    }

    /**
     * Kept, and without effect, since a free of pinned memory loses nothing here.
     *
     * @param on whether it is on
     * @return this
     */
    public Builder pinnedFreeCatchAll(boolean on) {
      return flag("pinned_free_catch_all", on);
    }

    /**
     * Above this share of the memory limit cached segments that were not used for long are given back first.
     *
     * @param share above 0 and below 1
     * @return this
     */
    public Builder garbageCollectionThreshold(double share) {
      return option("garbage_collection_threshold", share);
    }

    /**
     * The memory limit at the start.
     *
     * @param share of the device, 0 to 1
     * @return this
     */
    public Builder perProcessMemoryFraction(double share) {
      return option("per_process_memory_fraction", share);
    }

    /**
     * Rounds requests up to the next of so many equal steps between two powers of two.
     *
     * @param divisions a power of two
     * @return this
     */
    public Builder roundupPower2Divisions(long divisions) {
      return option("roundup_power2_divisions", divisions);
    }

    /**
     * The same by size.
     *
     * @param byMib MiB to divisions, in the order in which they are to be written
     * @param above divisions above all of them
     * @return this
     */
    public Builder roundupPower2Divisions(Map<Long, Long> byMib, long above) {
      StringBuilder text = new StringBuilder("[");
      Objects.requireNonNull(byMib, "byMib").forEach((mib, divisions) ->
          text.append(Objects.requireNonNull(mib, "byMib")).append(':')
              .append(Objects.requireNonNull(divisions, "byMib")).append(','));
      return option("roundup_power2_divisions", text.append(">:").append(above).append(']'));
    }

    /**
     * Address space that a new expandable segment reserves.
     *
     * @param reserve a share of the device's memory ({@code 0.5}) or GiB ({@code 16G})
     * @return this
     */
    public Builder expandableSegmentsReserve(String reserve) {
      return option("expandable_segments_reserve", Objects.requireNonNull(reserve, "reserve"));
    }

    /**
     * The same for the streams of classes ({@link Allocator#setReserveClass}).
     *
     * @param byClass class to reserve
     * @return this
     */
    public Builder expandableSegmentsReserveByClass(Map<String, String> byClass) {
      StringBuilder text = new StringBuilder();
      Objects.requireNonNull(byClass, "byClass").forEach((name, reserve) ->
          text.append(text.length() == 0 ? "" : ",").append(Objects.requireNonNull(name, "byClass")).append(':')
              .append(Objects.requireNonNull(reserve, "byClass")));
      return option("expandable_segments_reserve_by_class", "[" + text + "]");
    }

    /**
     * Which allocator serves requests; read when an allocator is made.
     *
     * @param backend the one
     * @return this
     */
    public Builder backend(Backend backend) {
      return option("backend", Objects.requireNonNull(backend, "backend").text);
    }

    /**
     * The options so far; the builder can go on.
     *
     * @return the options
     */
    public Options build() {
      return new Options(new LinkedHashMap<>(values));
    }
  }
}
