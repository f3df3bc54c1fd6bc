// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.util.EnumSet;
import java.util.Objects;
import java.util.Set;
import java.util.function.LongFunction;
import java.util.function.LongSupplier;

/** How an allocator is made. What is not set has its default. */
public final class AllocatorBuilder {
  private final Structs.AllocatorOptions options = new Structs.AllocatorOptions();
  private Driver driver;
  private LogObserver log;
  private LongSupplier capture;
  private LongFunction<String> text;

  AllocatorBuilder() {}

  /**
   * Where memory comes from; else as {@link Driver#fromEnvironment} does it.
   *
   * @param driver the driver, which the allocator keeps alive; it may be closed once the allocator has been made
   * @return this
   */
  public AllocatorBuilder driver(Driver driver) {
    this.driver = Objects.requireNonNull(driver, "driver");
    return this;
  }

  /**
   * The option string; else that of the environment ({@code CACHALOT_ALLOC_CONF} or PyTorch's variables).
   *
   * @param config in PyTorch's grammar; "": every option has its default
   * @return this
   */
  public AllocatorBuilder options(String config) {
    options.config = Arguments.text(config, "config");
    return this;
  }

  /**
   * The options.
   *
   * @param config the options
   * @return this
   */
  public AllocatorBuilder options(Options config) {
    return options(Objects.requireNonNull(config, "config").toString());
  }

  /**
   * Has pinned memory ({@link Allocator#allocatePinned(long)}) cached as a device's memory is, with these options;
   * else those of the environment variable {@code CACHALOT_PINNED_CONF}. Without either it is cached as in PyTorch,
   * and the options {@code pinned_*} of {@link #options(String)} count. As a device's it needs less memory, and has
   * limits, tenants and statistics of its own ({@link Allocator#pinnedAllocator}).
   *
   * @param config in PyTorch's grammar; "": every option has its default. {@code backend:cudaMallocAsync} and
   *     {@code expandable_segments:True} are refused
   * @return this
   */
  public AllocatorBuilder pinnedConfig(String config) {
    options.pinnedConfig = Arguments.text(config, "config");
    return this;
  }

  /**
   * The same.
   *
   * @param config the options
   * @return this
   */
  public AllocatorBuilder pinnedConfig(Options config) {
    return pinnedConfig(Objects.requireNonNull(config, "config").toString());
  }

  /**
   * The PyTorch release whose decisions are made; else the environment variable {@code CACHALOT_RELEASE}, else the
   * newest.
   *
   * @param release the release
   * @return this
   */
  public AllocatorBuilder release(Release release) {
    options.release = Objects.requireNonNull(release, "release").number();
    return this;
  }

  /**
   * Whether PyTorch's decisions are made or those of the serving policy; else the environment variable {@code
   * CACHALOT_POLICY}, else PyTorch's.
   *
   * @param policy the policy
   * @return this
   */
  public AllocatorBuilder policy(Policy policy) {
    Objects.requireNonNull(policy, "policy").writeTo(options);
    return this;
  }

  /**
   * The same, by its text.
   *
   * @param policy as {@link Policy#parse} reads it
   * @return this
   * @throws IllegalArgumentException for any other text
   */
  public AllocatorBuilder policy(String policy) {
    return policy(Policy.parse(Objects.requireNonNull(policy, "policy")));
  }

  /**
   * Whose words messages have; else the environment variable {@code CACHALOT_TEXTS}, else PyTorch's.
   *
   * @param wording whose
   * @return this
   */
  public AllocatorBuilder texts(Wording wording) {
    options.texts = Objects.requireNonNull(wording, "wording").number();
    return this;
  }

  /**
   * Defects of PyTorch to be mended.
   *
   * @param mends which
   * @return this
   */
  public AllocatorBuilder mend(Set<Mend> mends) {
    options.mend = Mend.bits(Objects.requireNonNull(mends, "mends"));
    return this;
  }

  /**
   * Safe debugging; else the environment variable {@code CACHALOT_DEBUG}.
   *
   * @param first one way
   * @param more others
   * @return this
   */
  public AllocatorBuilder debug(DebugOption first, DebugOption... more) {
    options.debug = DebugOption.bits(
        EnumSet.of(Objects.requireNonNull(first, "first"), Objects.requireNonNull(more, "more")));
    return this;
  }

  /**
   * Whether memory is cached; else the environment variable {@code PYTORCH_NO_CUDA_MEMORY_CACHING}.
   *
   * @param enabled false: each allocation goes to the driver
   * @return this
   */
  public AllocatorBuilder caching(boolean enabled) {
    options.noCaching = enabled ? -1 : 1;
    return this;
  }

  /**
   * Whether expandable pages can be shared with other processes; else the environment variable
   * {@code TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC}.
   *
   * @param shareable whether they can
   * @return this
   */
  public AllocatorBuilder shareablePages(boolean shareable) {
    options.shareablePages = shareable ? 1 : -1;
    return this;
  }

  /**
   * Whether the auditor runs after every call, and ends the process if it finds something; for tests.
   *
   * @param check whether it does
   * @return this
   */
  public AllocatorBuilder checkEveryCall(boolean check) {
    options.checkEveryCall = check ? 1 : 0;
    return this;
  }

  /**
   * Whether statistics are kept for each {@link Label}.
   *
   * @param track whether they are
   * @return this
   */
  public AllocatorBuilder trackLabels(boolean track) {
    options.trackLabels = track ? 1 : 0;
    return this;
  }

  /**
   * Gets the library's remarks; else it is silent.
   *
   * @param log called on the thread of the call, maybe under a lock: it must not call the library
   * @return this
   */
  public AllocatorBuilder log(LogObserver log) {
    this.log = Objects.requireNonNull(log, "log");
    return this;
  }

  /**
   * Has the library's remarks logged, each at its level ({@link LogLevel#level}).
   *
   * @param logger for example {@code System.getLogger("io.cachalot")}; it is called as {@link #log(LogObserver)} says
   * @return this
   */
  public AllocatorBuilder log(System.Logger logger) {
    Objects.requireNonNull(logger, "logger");
    return log((level, message) -> logger.log(level.level(), message));
  }

  /**
   * Where the contexts of the history come from.
   *
   * @param source the source
   * @return this
   */
  public AllocatorBuilder contextSource(ContextSource source) {
    options.contextSource = Objects.requireNonNull(source, "source").number();
    return this;
  }

  /**
   * Contexts of the program's own.
   *
   * @param capture gives the context of the calling thread as a number that can be resolved later; 0: none
   * @param text what a context means, one frame a line, innermost first
   * @return this
   */
  public AllocatorBuilder contexts(LongSupplier capture, LongFunction<String> text) {
    Objects.requireNonNull(capture, "capture");
    this.text = Objects.requireNonNull(text, "text");
    this.capture = capture;
    options.contextSource = ContextSource.CALLBACK.number();
    return this;
  }

  /**
   * Makes the allocator. Nothing is obtained from the driver yet.
   *
   * @return the allocator; close it
   * @throws IllegalArgumentException for an option string or a size of pages that is not acceptable
   * @throws UnsupportedOperationException for an option or a policy that the driver cannot serve
   * @throws DriverException if no driver could be opened
   */
  public Allocator build() {
    // What is called belongs to the allocator, not to the reference that the library has.
    Listeners listeners = new Listeners();
    Listeners.Ref<LogObserver> logs = log == null ? null : listeners.add(log);
    Listeners.Ref<LongSupplier> captures = capture == null ? null : listeners.add(capture);
    Listeners.Ref<LongFunction<String>> texts = text == null ? null : listeners.add(text);
    Structs.AllocatorOptions given = toC();
    given.log = logs == null ? null
        : (level, message) -> logs.underLock(each -> each.log(LogLevel.of(level), message));
    given.contextCapture = captures == null ? null : () -> captures.get(0L, LongSupplier::getAsLong);
    given.contextText = texts == null ? null : context -> texts.get("", each -> each.apply(context));
    try (Driver own = driver == null ? Driver.fromEnvironment() : null;
        Scratch scratch = Scratch.enter(own == null ? driver.resource : own.resource);
        Memory memory = new Memory()) {
      given.driver = scratch.handle;
      scratch.check(Native.allocatorCreate(given.write(memory), scratch.out, scratch.error));
      Allocator made = Cleaners.own(scratch.outLong(),
          address -> new Allocator(new AllocatorCore(address, memory.keep(), false), listeners),
          address -> Native.allocatorDestroy(address, 0));
      Flight.recorder().watch(made);
      return made;
    }
  }

  /** For one allocator, which the library asks for its callbacks: what is built later is not its business. */
  private Structs.AllocatorOptions toC() {
    Structs.AllocatorOptions copy = new Structs.AllocatorOptions();
    copy.config = options.config;
    copy.pinnedConfig = options.pinnedConfig;
    copy.release = options.release;
    copy.policy = options.policy;
    copy.thrift = options.thrift;
    copy.borrow = options.borrow;
    copy.streams = options.streams;
    copy.pageBytes = options.pageBytes;
    copy.mend = options.mend;
    copy.debug = options.debug;
    copy.noCaching = options.noCaching;
    copy.shareablePages = options.shareablePages;
    copy.checkEveryCall = options.checkEveryCall;
    copy.trackLabels = options.trackLabels;
    copy.contextSource = options.contextSource;
    copy.texts = options.texts;
    return copy;
  }
}
