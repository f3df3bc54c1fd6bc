// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;
import java.util.Objects;

/** How a trace is replayed. */
public final class ReplayOptions {
  private final Structs.ReplayOptions values = new Structs.ReplayOptions();
  private Progress progress;
  private ReplayObserver observer;

  /** All defaults. */
  public ReplayOptions() {}

  /** Sees how far a replay is. */
  @FunctionalInterface
  public interface Progress {
    /**
     * Some events have been replayed.
     *
     * @param done how many
     * @param total of how many
     * @return whether to go on; a replay that is stopped ends with a {@link CachalotException}
     */
    boolean at(long done, long total);
  }

  /**
   * The option string; else the recorded one.
   *
   * @param config in PyTorch's grammar
   * @return this
   */
  public ReplayOptions options(String config) {
    values.config = Arguments.text(config, "config");
    return this;
  }

  /**
   * The release; else the recorded one, or the default.
   *
   * @param release the release
   * @return this
   */
  public ReplayOptions release(Release release) {
    values.release = Objects.requireNonNull(release, "release").number();
    return this;
  }

  /**
   * Whether PyTorch's decisions are made or those of the serving policy; else PyTorch's. {@link
   * #expect} needs PyTorch's.
   *
   * @param policy the policy
   * @return this
   */
  public ReplayOptions policy(Policy policy) {
    Objects.requireNonNull(policy, "policy").writeTo(values);
    return this;
  }

  /**
   * The same, by its text.
   *
   * @param policy as {@link Policy#parse} reads it
   * @return this
   * @throws IllegalArgumentException for any other text
   */
  public ReplayOptions policy(String policy) {
    return policy(Policy.parse(Objects.requireNonNull(policy, "policy")));
  }

  /**
   * Whether the recorded addresses are handed out and every event is compared.
   *
   * @param expect needs the recorded options and release
   * @return this
   */
  public ReplayOptions expect(boolean expect) {
    values.expect = expect ? 1 : 0;
    return this;
  }

  /**
   * Bytes of a device, at most 4 TiB; else the recorded number, or 80 GiB.
   *
   * @param bytes the capacity
   * @return this
   */
  public ReplayOptions capacity(long bytes) {
    values.capacity = Arguments.size(bytes, "bytes");
    return this;
  }

  /**
   * The memory fraction; else there is no limit.
   *
   * @param fraction of the device's memory
   * @return this
   */
  public ReplayOptions fraction(double fraction) {
    values.fraction = fraction;
    return this;
  }

  /**
   * Whether the replay ends at the first request that fails as out of memory. Not with {@link #expect}.
   *
   * @param stop true: it does
   * @return this
   */
  public ReplayOptions stopAtOutOfMemory(boolean stop) {
    values.stopAtOutOfMemory = stop ? 1 : 0;
    return this;
  }

  /**
   * Whether the history is kept, for {@link Replay#snapshot}.
   *
   * @param history true: it is
   * @return this
   */
  public ReplayOptions history(boolean history) {
    values.history = history ? 1 : 0;
    return this;
  }

  /**
   * Is called now and then.
   *
   * @param progress what is called
   * @return this
   */
  public ReplayOptions progress(Progress progress) {
    this.progress = Objects.requireNonNull(progress, "progress");
    return this;
  }

  /**
   * Sees what the allocator did at each event.
   *
   * @param observer what is called
   * @return this
   */
  public ReplayOptions observer(ReplayObserver observer) {
    this.observer = Objects.requireNonNull(observer, "observer");
    return this;
  }

  /**
   * How many events are replayed, from the first on; else all. Not with {@link #expect}.
   *
   * @param count 0: all
   * @return this
   */
  public ReplayOptions eventCount(long count) {
    values.eventCount = Arguments.size(count, "count");
    return this;
  }

  /** A progress and an observer for one replay, and what one of them threw. */
  static final class Watched {
    private final Progress progress;
    private final ReplayObserver observer;
    private Throwable thrown;

    private Watched(Progress progress, ReplayObserver observer) {
      this.progress = progress;
      this.observer = observer;
    }

    /** Also stops a replay whose observer has thrown something. */
    private int at(long done, long total) {
      try {
        return !hasThrown() && (progress == null || progress.at(done, total)) ? 0 : 1;
      } catch (Throwable failure) {
        thrown = failure;
        return 1;
      }
    }

    private void event(long index, Structs.TraceEntry entry) {
      if (hasThrown()) {
        return;
      }
      try {
        observer.event(index, TraceEntry.of(entry));
      } catch (Throwable failure) {
        thrown = failure;
      }
    }

    boolean hasThrown() {
      return thrown != null;
    }

    void rethrow() {
      Errors.<RuntimeException>rethrow(thrown);
    }
  }

  Watched watched() {
    return new Watched(progress, observer);
  }

  /** For one replay: what these options become later is not its business. */
  Structs.ReplayOptions toC(Watched watched) {
    Structs.ReplayOptions copy = new Structs.ReplayOptions();
    copy.config = values.config;
    copy.release = values.release;
    copy.policy = values.policy;
    copy.thrift = values.thrift;
    copy.borrow = values.borrow;
    copy.streams = values.streams;
    copy.pageBytes = values.pageBytes;
    copy.expect = values.expect;
    copy.stopAtOutOfMemory = values.stopAtOutOfMemory;
    copy.history = values.history;
    copy.capacity = values.capacity;
    copy.fraction = values.fraction;
    copy.eventCount = values.eventCount;
    copy.progress = watched::at;
    copy.observer = watched.observer == null ? null : watched::event;
    return copy;
  }
}
