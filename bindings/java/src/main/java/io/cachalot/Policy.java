// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.util.Objects;
import java.util.OptionalLong;

/**
 * Whose decisions an allocator or a replay makes: PyTorch's, or those of cachalot's serving policy, which needs less
 * memory ({@code docs/policy.md}).
 *
 * <pre>{@code
 * Allocator.builder().policy(Policy.serving().thrift(true).pageBytes(8 << 20).build());
 * Allocator.builder().policy("serving,thrift,page=8MiB");  // the same, as CACHALOT_POLICY has it
 * }</pre>
 */
public final class Policy {
  /** Whose decisions are made. */
  public enum Kind {
    /** PyTorch's. */
    PYTORCH(Constants.POLICY_PYTORCH),
    /** Those of the serving policy. */
    SERVING(Constants.POLICY_SERVING);

    private final int number;

    Kind(int number) {
      this.number = number;
    }
  }

  /** PyTorch's decisions, pages included. */
  public static final Policy PYTORCH = new Policy(Kind.PYTORCH, false, Borrow.FIRST, false, 0);

  private final Kind kind;
  private final boolean thrift;
  private final Borrow borrow;
  private final boolean announcedStreams;
  /** 0: the policy's choice. */
  private final long pageBytes;

  private Policy(Kind kind, boolean thrift, Borrow borrow, boolean announcedStreams, long pageBytes) {
    this.kind = kind;
    this.thrift = thrift;
    this.borrow = borrow;
    this.announcedStreams = announcedStreams;
    this.pageBytes = pageBytes;
  }

  /**
   * PyTorch's decisions with pages of another size in expandable segments, small and large: the events are not
   * PyTorch's any more.
   *
   * @param pageBytes a power of two, a multiple of the driver's granularity, at most 1 GiB; 0: PyTorch's
   * @return the policy
   */
  public static Policy pytorch(long pageBytes) {
    return new Policy(Kind.PYTORCH, false, Borrow.FIRST, false, Arguments.size(pageBytes, "pageBytes"));
  }

  /**
   * The serving policy by its options.
   *
   * @return a builder with all defaults
   */
  public static Builder serving() {
    return new Builder();
  }

  /**
   * Reads {@code pytorch}, also with a page, or {@code serving} and any of its options, as the environment variable
   * {@code CACHALOT_POLICY} has them: {@code
   * serving,thrift,page=8MiB,borrow=at_limit,streams=announced}.
   *
   * @param text the policy
   * @return the policy
   * @throws IllegalArgumentException for any other text, with what was expected
   */
  public static Policy parse(String text) {
    Arguments.text(text, "text");
    try (Scratch scratch = Scratch.enter(); Memory memory = new Memory()) {
      scratch.check(Native.policyRead(memory.text(text), scratch.sized(Structs.Policy.SIZE), scratch.error));
      return of(Structs.Policy.read(scratch.memory(), Scratch.struct()));
    }
  }

  static Policy of(Structs.Policy from) {
    for (Kind kind : Kind.values()) {
      if (kind.number == from.policy) {
        return new Policy(kind, from.thrift != 0, Borrow.find(from.borrow).orElseThrow(),
            from.streams == Constants.STREAMS_ANNOUNCED, from.pageBytes);
      }
    }
    throw new IllegalStateException("the policy " + from.policy + " is one of a newer library");
  }

  /** Writes it where options of the library have it. */
  void writeTo(Structs.AllocatorOptions options) {
    options.policy = kind.number;
    options.thrift = thrift ? 1 : 0;
    options.borrow = borrow.number();
    options.streams = announcedStreams ? Constants.STREAMS_ANNOUNCED : Constants.STREAMS_UNANNOUNCED;
    options.pageBytes = pageBytes;
  }

  /** The same. */
  void writeTo(Structs.ReplayOptions options) {
    options.policy = kind.number;
    options.thrift = thrift ? 1 : 0;
    options.borrow = borrow.number();
    options.streams = announcedStreams ? Constants.STREAMS_ANNOUNCED : Constants.STREAMS_UNANNOUNCED;
    options.pageBytes = pageBytes;
  }

  /**
   * Whose decisions are made.
   *
   * @return the kind
   */
  public Kind kind() {
    return kind;
  }

  /**
   * Whether idle pages of the cache serve before new ones.
   *
   * @return false with PyTorch's decisions
   */
  public boolean thrift() {
    return thrift;
  }

  /**
   * When streams lend cached memory to each other.
   *
   * @return without a meaning with PyTorch's decisions
   */
  public Borrow borrow() {
    return borrow;
  }

  /**
   * Whether the program has promised to call {@link Allocator#streamEnded} before it destroys a stream, or to destroy
   * none.
   *
   * @return false with PyTorch's decisions
   */
  public boolean announcedStreams() {
    return announcedStreams;
  }

  /**
   * Bytes of a page.
   *
   * @return empty where the policy chooses, and where pages are as PyTorch has them
   */
  public OptionalLong pageBytes() {
    return pageBytes == 0 ? OptionalLong.empty() : OptionalLong.of(pageBytes);
  }

  /** The text that {@link #parse} reads, without what is the default. */
  @Override
  public String toString() {
    return (kind == Kind.SERVING ? "serving" : "pytorch") + (thrift ? ",thrift" : "")
        + (pageBytes == 0 ? "" : ",page=" + sizeText(pageBytes)) + (borrow == Borrow.FIRST ? "" : ",borrow=" + borrow)
        + (announcedStreams ? ",streams=announced" : "");
  }

  /** A whole number of the largest unit that there is. */
  private static String sizeText(long bytes) {
    String[] units = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    while (unit + 1 < units.length && bytes % 1024 == 0) {
      bytes /= 1024;
      unit++;
    }
    return bytes + units[unit];
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Policy that && kind == that.kind && thrift == that.thrift && borrow == that.borrow
        && announcedStreams == that.announcedStreams && pageBytes == that.pageBytes;
  }

  @Override
  public int hashCode() {
    return Objects.hash(kind, thrift, borrow, announcedStreams, pageBytes);
  }

  /** The options of the serving policy. */
  public static final class Builder {
    private boolean thrift;
    private Borrow borrow = Borrow.FIRST;
    private boolean announcedStreams;
    private long pageBytes;

    private Builder() {}

    /**
     * Whether idle pages of the cache serve before new ones, so that no more is reserved than is needed.
     *
     * @param on whether they do
     * @return this
     */
    public Builder thrift(boolean on) {
      thrift = on;
      return this;
    }

    /**
     * When cached memory of one stream is lent to another; else {@link Borrow#FIRST}.
     *
     * @param borrow when
     * @return this
     */
    public Builder borrow(Borrow borrow) {
      this.borrow = Objects.requireNonNull(borrow, "borrow");
      return this;
    }

    /**
     * Promises to call {@link Allocator#streamEnded} before the program destroys a stream, or to destroy none. With it
     * a borrower waits for the lender's stream alone, by its handle; CUDA's driver ends the process at the handle of a
     * stream that is gone. Without it a borrower waits for all work that the device has been given, and no handle but
     * the request's own is used.
     *
     * @param announced whether that is promised
     * @return this
     */
    public Builder announcedStreams(boolean announced) {
      announcedStreams = announced;
      return this;
    }

    /**
     * Bytes of a page; else 2 MiB, or the driver's granularity if that is more.
     *
     * @param bytes a power of two, a multiple of the granularity, at most 1 GiB; the library looks at it when an
     *     allocator is made
     * @return this
     */
    public Builder pageBytes(long bytes) {
      pageBytes = Arguments.size(bytes, "bytes");
      return this;
    }

    /**
     * The policy.
     *
     * @return the serving policy with these options
     */
    public Policy build() {
      return new Policy(Kind.SERVING, thrift, borrow, announcedStreams, pageBytes);
    }
  }
}
