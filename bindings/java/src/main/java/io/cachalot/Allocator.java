// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Callbacks;
import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * PyTorch's CUDA caching allocator over all devices of one driver. All methods may be called at the same time from
 * any thread.
 *
 * <pre>{@code
 * try (Allocator allocator = Allocator.create(); Block block = allocator.allocate(1 << 20, 0, 0)) {
 *   launch(block.address());
 * }
 * }</pre>
 *
 * <p>Addresses and streams are the driver's numbers; 0 is the default stream. Those above {@code Long.MAX_VALUE} are
 * negative, as C's unsigned numbers are in Java. Sizes are bytes, and a negative one is refused.
 */
public final class Allocator extends AllocatorState implements AutoCloseable {
  /**
   * Every stream of the device's context, for callers that do not know which streams use a block: a block that is
   * recorded for it ({@link Block#recordStream(long)}) stays out of use after its free until all work is done that is
   * queued by then. No such block may be freed while a stream of the context is captured.
   */
  public static final long STREAM_ALL = Constants.STREAM_ALL;

  final Listeners listeners;
  /** What ends the allocator, if that is not this. */
  private final Object keeper;
  private final Allocator pinned;
  /** What {@link Flight} has of it, which must not be found without it. */
  Object watched;

  Allocator(AllocatorCore core, Listeners listeners) {
    super(core);
    this.listeners = listeners;
    keeper = null;
    AllocatorCore lent = core.lendPinned();
    pinned = lent == null ? null : new Allocator(lent, new Listeners(), this);
    Cleaners.register(this, core);
  }

  /** An allocator that another object lends, and that this handle keeps from the collector: the keeper. */
  Allocator(AllocatorCore core, Listeners listeners, Object keeper) {
    super(core);
    this.listeners = listeners;
    this.keeper = keeper;
    pinned = null;
  }

  /**
   * An allocator with all defaults: over the GPUs if there are any, else over host memory, with the options of the
   * environment.
   *
   * @return the allocator; close it
   * @throws DriverException if no driver could be opened
   */
  public static Allocator create() {
    return builder().build();
  }

  /**
   * An allocator to be described.
   *
   * @return a builder with all defaults
   */
  public static AllocatorBuilder builder() {
    return new AllocatorBuilder();
  }

  /**
   * Gives all memory back and ends the allocator. Again: nothing.
   *
   * @throws IllegalStateException while blocks are live (the message has their number), or from within a callback of
   *     its own: then the allocator is still there
   */
  @Override
  public void close() {
    if (keeper == null) {
      core.close();
    }
  }

  /**
   * The same, but live blocks are freed too: for each device that has some, all its work is waited for first. Their
   * addresses must not be used afterwards. Again: nothing.
   *
   * <p>Before Java 22, while somebody may have a buffer of a block, the allocator is closed but its memory goes back
   * only when the collector has found that nobody has.
   *
   * @throws IllegalStateException from within a callback of its own, and on Java 22 and later while another thread
   *     reads or writes a block's buffer in a call of the JDK's: then the allocator and its blocks are still there,
   *     but buffers may have ended ({@link Block#asByteBuffer} makes new ones)
   */
  public void closeAll() {
    if (keeper == null) {
      core.closeAll();
    }
  }

  // ---- Blocks ---------------------------------------------------------------------------------------

  /**
   * Hands out a block (PyTorch's tensor allocation).
   *
   * @param size bytes; 0 gives an empty block
   * @param device counted from 0
   * @param stream the stream that will use the block: it is not waited for between blocks of one stream
   * @return the block; close it
   * @throws OutOfDeviceMemoryException with all numbers, if there is not enough memory
   * @throws DriverException for an error that the driver reported now or left pending
   * @throws IllegalArgumentException for a negative size, or a device that the driver does not have
   */
  public Block allocate(long size, int device, long stream) {
    Arguments.size(size, "size");
    try (Scratch scratch = Scratch.enter(core)) {
      return own(allocate(scratch, size, device, stream), scratch);
    }
  }

  /**
   * Hands out a block on device 0 for the default stream.
   *
   * @param size bytes
   * @return the block; close it
   * @throws OutOfDeviceMemoryException with all numbers, if there is not enough memory
   */
  public Block allocate(long size) {
    return allocate(size, 0, 0);
  }

  /**
   * Hands out a block, with all that a request may say.
   *
   * @param request the request
   * @return the block; close it
   * @throws OutOfDeviceMemoryException with all numbers, if there is not enough memory
   * @throws UnsupportedOperationException for {@link Request#at} under 2.11
   */
  public Block allocate(Request request) {
    Objects.requireNonNull(request, "request");
    try (Scratch scratch = Scratch.enter(core)) {
      request.put(scratch);
      scratch.check(Ambient.call(() ->
          Native.allocateWith(scratch.handle, scratch.structAddress(), scratch.out, scratch.error)));
      return own(scratch.outLong(), scratch);
    }
  }

  /**
   * Hands out a block that has no owner: it costs no object, and is the caller's to free.
   *
   * @param size bytes; 0 gives address 0
   * @param device counted from 0
   * @param stream the stream that will use the block
   * @return the address, for {@link #free} or {@link #adopt}
   * @throws OutOfDeviceMemoryException with all numbers, if there is not enough memory
   * @throws DriverException for an error that the driver reported now or left pending
   * @throws IllegalArgumentException for a negative size, or a device that the driver does not have
   */
  public long allocateUnowned(long size, int device, long stream) {
    Arguments.size(size, "size");
    try (Scratch scratch = Scratch.enter(core)) {
      return allocate(scratch, size, device, stream);
    }
  }

  private static long allocate(Scratch scratch, long size, int device, long stream) {
    int status;
    boolean isTold = Ambient.begin();
    try {
      status = Native.allocate(scratch.handle, size, device, stream, scratch.out, scratch.error);
    } finally {
      Ambient.end(isTold);
    }
    scratch.check(status);
    return scratch.outLong();
  }

  /** An owner for an address; if there can be none it is freed. */
  Block own(long address, Scratch scratch) {
    try {
      return new Block(this, address, scratch);
    } catch (Throwable thrown) {
      core.freeAbandoned(address, null);
      throw thrown;
    }
  }

  /**
   * Takes over a block without an owner.
   *
   * @param address of a live block that has no owner, from {@link #allocateUnowned}, {@link Block#leak} or C
   * @return the block; close it
   * @throws IllegalArgumentException for any other address than that of a live block
   */
  public Block adopt(long address) {
    blockAt(address);
    try (Scratch scratch = Scratch.enter(core)) {
      return new Block(this, address, scratch);
    }
  }

  /**
   * Frees a block without an owner.
   *
   * @param address as it was handed out; 0: nothing
   * @throws IllegalArgumentException for an address that is not that of a live block: nothing has changed
   */
  public void free(long address) {
    try (Scratch scratch = Scratch.enter(core)) {
      core.free(scratch, address, false, 0);
    }
  }

  /**
   * The same, made while this is the thread's current stream, which matters during captures.
   *
   * @param address as it was handed out; 0: nothing
   * @param current the stream
   * @throws IllegalArgumentException for an address that is not that of a live block
   */
  public void free(long address, long current) {
    try (Scratch scratch = Scratch.enter(core)) {
      core.free(scratch, address, true, current);
    }
  }

  /**
   * Says that work on another stream uses a block; see {@link Block#recordStream(long)}.
   *
   * @param address 0 and foreign addresses are ignored, as in PyTorch
   * @param stream of the block's device
   */
  public void recordStream(long address, long stream) {
    core.call((allocator, error) -> Native.recordStream(allocator, address, stream, error));
  }

  /**
   * What is known of a live block.
   *
   * @param address of a live block
   * @return its size, stream, pool and so on
   * @throws IllegalArgumentException for any other address
   */
  public BlockInfo blockAt(long address) {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(Native.getBlock(scratch.handle, address, scratch.sized(Structs.Block.SIZE), scratch.error));
      return BlockInfo.of(Structs.Block.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * The segment that a block is a piece of.
   *
   * @param address of a live block
   * @return its segment
   * @throws IllegalStateException for blocks of expandable segments and of an allocator without caching
   */
  public BaseAllocation baseAllocation(long address) {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(Native.baseAllocation(scratch.handle, address, scratch.out, scratch.out(1), scratch.error));
      return new BaseAllocation(scratch.outLong(), scratch.outLong(1));
    }
  }

  // ---- Memory that stays, streams that end ---------------------------------------------------------

  /**
   * Keeps a part of a live block where it is until the pin is closed: the segment or the pages under it are neither
   * given back to the driver nor moved, also after the block was freed. Blocks come and go there as before. For memory
   * that others have registered: RDMA, dma-buf, NCCL's user buffers, handles given to other processes.
   *
   * @param address within a live block
   * @param size bytes from there on, not beyond the block
   * @return close it
   * @throws IllegalArgumentException for a part that does not lie in one live block, also of a block that bypassed the
   *     cache
   * @throws UnsupportedOperationException under {@code backend:cudaMallocAsync}
   */
  public Pin pin(long address, long size) {
    return Pin.of(this, address, size);
  }

  /**
   * Tells that a stream is about to be destroyed and that no more work comes of it. Waits for its work; then nothing
   * waits for the stream any more, also not for blocks of its that are freed later. With {@link
   * Policy.Builder#announcedStreams} call it before the stream is destroyed: a borrower of its memory would wait for it
   * by its handle. With PyTorch's decisions nothing happens.
   *
   * @param device the device
   * @param stream the stream
   * @throws IllegalStateException while a capture may be under way on the device
   * @throws DriverException where the work has failed: then nothing has changed
   */
  public void streamEnded(int device, long stream) {
    core.call((allocator, error) -> Native.streamEnded(allocator, device, stream, error));
  }

  // ---- The cache ------------------------------------------------------------------------------------

  /**
   * Gives all cached memory of all devices back to the driver, after waiting for blocks freed with recorded streams.
   */
  public void emptyCache() {
    core.call(Native::emptyCache);
  }

  /**
   * The same for one device.
   *
   * @param device the device
   * @throws IllegalArgumentException for a device that the driver does not have
   */
  public void emptyCache(int device) {
    core.call((allocator, error) -> Native.emptyDeviceCache(allocator, device, error));
  }

  /**
   * The same, made while this is the thread's current stream.
   *
   * @param device the device
   * @param current the stream
   */
  public void emptyCache(int device, long current) {
    core.call((allocator, error) -> Native.emptyDeviceCacheOnStream(allocator, device, current, error));
  }

  /**
   * Lets go of a device's context, which the caller is about to end: of the device's cached memory, of cached pinned
   * memory, and of all events. What is live on the device ends with the context. The next call for the device takes
   * the context that there is then.
   *
   * @param device the device
   * @throws IllegalArgumentException for a device that the driver does not have
   * @throws IllegalStateException while a capture may be under way
   */
  public void releaseContext(int device) {
    core.call((allocator, error) -> Native.releaseContext(allocator, device, error));
  }

  /**
   * Empties the cache at the end of a try block.
   *
   * @return close it
   */
  public EmptyCacheScope emptyCacheOnClose() {
    return new EmptyCacheScope(this);
  }

  /**
   * Gives idle memory back to the driver, longest idle first, until no more is reserved than shall stay, or nothing
   * has been idle for long enough. Memory counts as idle from the first trim on that sees it free.
   *
   * @param device the device
   * @param keepBytes bytes that may stay reserved, live blocks included; 0: as few as possible
   * @param minIdle zero: whatever is free goes
   * @return the bytes that were given back
   * @throws DriverException where the driver refused: what was given back until then stays given back
   * @throws UnsupportedOperationException for an idle time under {@code backend:cudaMallocAsync}
   */
  public long trim(int device, long keepBytes, Duration minIdle) {
    Arguments.size(keepBytes, "keepBytes");
    long idle = Arguments.nanos(minIdle, "minIdle");
    return core.ask((allocator, out, error) -> Native.trim(allocator, device, keepBytes, idle, out, error));
  }

  /**
   * The same by the caller's clock, for simulations and tests.
   *
   * @param device the device
   * @param keepBytes bytes that may stay reserved
   * @param minIdle zero: whatever is free goes
   * @param now the time of a clock that never goes back
   * @return the bytes that were given back
   */
  public long trimAt(int device, long keepBytes, Duration minIdle, Duration now) {
    Arguments.size(keepBytes, "keepBytes");
    long idle = Arguments.nanos(minIdle, "minIdle");
    long time = Arguments.nanos(now, "now");
    return core.ask((allocator, out, error) -> Native.trimAt(allocator, device, keepBytes, idle, time, out, error));
  }

  /**
   * The largest cached block.
   *
   * @param device the device
   * @param atLeast where to start from; 0: the device's free memory counts as one block
   * @return its bytes
   */
  public long largestBlock(int device, long atLeast) {
    Arguments.size(atLeast, "atLeast");
    return core.ask((allocator, out, error) -> Native.largestBlock(allocator, device, atLeast, out, error));
  }

  /**
   * The same, made while this is the thread's current stream (matters to {@code backend:cudaMallocAsync}).
   *
   * @param device the device
   * @param atLeast where to start from
   * @param current the stream
   * @return its bytes
   */
  public long largestBlock(int device, long atLeast, long current) {
    Arguments.size(atLeast, "atLeast");
    return core.ask((allocator, out, error) ->
        Native.largestBlockOnStream(allocator, device, atLeast, current, out, error));
  }

  /**
   * Switches caching on or off for later requests. A block is freed the way it was made.
   *
   * @param enabled whether requests are cached
   */
  public void setCachingEnabled(boolean enabled) {
    core.call((allocator, error) -> Native.setCachingEnabled(allocator, enabled ? 1 : 0, error));
  }

  /**
   * Whether requests are cached.
   *
   * @return whether they are
   */
  public boolean isCachingEnabled() {
    try (Scratch scratch = Scratch.enter(core)) {
      return Native.isCachingEnabled(scratch.handle) != 0;
    }
  }

  // ---- History and observers ------------------------------------------------------------------------

  /**
   * Starts, changes or stops the recording of history on all devices. Slows every call down.
   *
   * @param options how
   * @throws IllegalArgumentException for an unknown name of an action (recording is on by then and nothing is
   *     skipped)
   */
  public void recordHistory(HistoryOptions options) {
    Objects.requireNonNull(options, "options");
    try (Memory memory = new Memory()) {
      long address = options.values.write(memory);
      core.call((allocator, error) -> Native.recordHistory(allocator, address, error));
    }
  }

  /**
   * Starts a recorder on all devices. The recording begins with the blocks that are live, and no event is missing
   * behind them.
   *
   * @param options how
   * @return closing it stops it; else it runs as long as the allocator
   * @throws IllegalArgumentException for options that do not fit each other
   * @throws CachalotException if the file cannot be made
   * @throws UnsupportedOperationException under {@code backend:cudaMallocAsync}
   */
  public Recorder record(RecorderOptions options) {
    return Recorder.start(this, Objects.requireNonNull(options, "options"));
  }

  /**
   * Has each request that fails as out of memory leave its report, the last events and the live blocks in a folder, of
   * the first 16 failures.
   *
   * @param folder one that there is
   * @param events how many of the last are kept for it, at most 10,000,000. That slows each call down as history
   *     does; 0: none
   * @throws CachalotException if there is no such folder: nothing has changed
   * @throws UnsupportedOperationException under {@code backend:cudaMallocAsync}
   */
  public void dumpOutOfMemory(Path folder, long events) {
    Structs.OomDumpOptions values = new Structs.OomDumpOptions();
    values.folder = Arguments.text(Objects.requireNonNull(folder, "folder").toString(), "folder");
    values.events = Arguments.size(events, "events") == 0 ? -1 : events;
    setOomDump(values);
  }

  /** Writes nothing any more when a request fails, also not what {@code CACHALOT_OOM_DUMP} asks for. */
  public void dumpNoOutOfMemory() {
    setOomDump(new Structs.OomDumpOptions());
  }

  private void setOomDump(Structs.OomDumpOptions values) {
    try (Memory memory = new Memory()) {
      long address = values.write(memory);
      core.call((allocator, error) -> Native.setOomDump(allocator, address, error));
    }
  }

  /**
   * The history of a device, by a snapshot.
   *
   * @param device the device
   * @return its entries, oldest first
   */
  public List<TraceEntry> history(int device) {
    try (Snapshot snapshot = snapshot()) {
      return snapshot.history(device);
    }
  }

  /**
   * The context that a live block keeps.
   *
   * @param address the address
   * @return the context; 0 for none and for any address that is not that of a live block
   * @throws UnsupportedOperationException under 2.11
   */
  public long contextOf(long address) {
    return core.ask((allocator, out, error) -> Native.contextOf(allocator, address, out, error));
  }

  /**
   * What a context means.
   *
   * @param context the context; 0 gives ""
   * @return one frame a line, innermost first
   */
  public String contextText(long context) {
    return core.text((allocator, buffer, capacity, length, error) ->
        Native.contextText(allocator, context, buffer, capacity, length, error));
  }

  /**
   * Adds an entry with a text for a live block.
   *
   * @param address of a live block
   * @param text the text
   * @throws UnsupportedOperationException under 2.11
   */
  public void annotate(long address, String text) {
    core.tell(Objects.requireNonNull(text, "text"),
        (allocator, written, error) -> Native.annotate(allocator, address, written, error));
  }

  private Observer attach(int entry, Object callback, Listeners.Ref<?> listener, AllocatorCore.Attach attach) {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(attach.call(scratch.handle, Memory.entry(entry), Memory.newReference(callback),
          Memory.entry(Callbacks.DESTROY), scratch.out, scratch.error));
      return new Observer(this, listener, scratch.outLong());
    } catch (Throwable thrown) {
      listeners.remove(listener);
      throw thrown;
    }
  }

  /**
   * Attaches an observer of all events, recorded or not.
   *
   * @param observer the observer
   * @return closing it detaches it; else it stays as long as the allocator
   */
  public Observer observeTrace(TraceObserver observer) {
    Listeners.Ref<TraceObserver> ref = listeners.add(Objects.requireNonNull(observer, "observer"));
    Callbacks.TraceObserverFn callback = entry -> ref.underLock(each -> each.event(TraceEntry.of(entry)));
    return attach(Callbacks.TRACE_OBSERVER_FN, callback, ref, Native::observeTrace);
  }

  /**
   * Attaches an observer of out-of-memory errors.
   *
   * @param observer the observer
   * @return closing it detaches it; else it stays as long as the allocator
   */
  public Observer observeOutOfMemory(OutOfMemoryObserver observer) {
    Listeners.Ref<OutOfMemoryObserver> ref = listeners.add(Objects.requireNonNull(observer, "observer"));
    Callbacks.OutOfMemoryObserverFn callback =
        numbers -> ref.call(each -> each.outOfMemory(OutOfMemory.of(numbers)));
    return attach(Callbacks.OUT_OF_MEMORY_OBSERVER_FN, callback, ref, Native::observeOutOfMemory);
  }

  /**
   * Attaches an observer of requests that are refused before the driver is asked.
   *
   * @param observer the observer
   * @return closing it detaches it; else it stays as long as the allocator
   */
  public Observer observeRejection(RejectionObserver observer) {
    Listeners.Ref<RejectionObserver> ref = listeners.add(Objects.requireNonNull(observer, "observer"));
    Callbacks.RejectionObserverFn callback = numbers -> ref.call(each -> each.rejected(Rejection.of(numbers)));
    return attach(Callbacks.REJECTION_OBSERVER_FN, callback, ref, Native::observeRejection);
  }

  /**
   * Attaches a callback that is asked to free memory when a request finds no cached block.
   *
   * @param callback the callback
   * @return closing it detaches it; else it stays as long as the allocator
   */
  public Observer onFreeMemory(FreeMemoryCallback callback) {
    Listeners.Ref<FreeMemoryCallback> ref = listeners.add(Objects.requireNonNull(callback, "callback"));
    Callbacks.FreeMemoryFn asked = (device, size) -> ref.get(false, each -> each.free(device, size)) ? 1 : 0;
    return attach(Callbacks.FREE_MEMORY_FN, asked, ref, Native::registerFreeMemoryCallback);
  }

  /**
   * A picture of segments, blocks, history and options.
   *
   * @return the snapshot; close it
   */
  public Snapshot snapshot() {
    return snapshot(new SnapshotOptions());
  }

  /**
   * The same.
   *
   * @param options what goes into it
   * @return the snapshot; close it
   */
  public Snapshot snapshot(SnapshotOptions options) {
    return Snapshot.take(this, Objects.requireNonNull(options, "options"));
  }

  /**
   * Who holds the memory of a device, and what is in the way of a request.
   *
   * @param options what it is about
   * @return the report; close it
   * @throws UnsupportedOperationException under {@code backend:cudaMallocAsync}
   */
  public Report report(ReportOptions options) {
    return Report.create(this, Objects.requireNonNull(options, "options"));
  }

  // ---- Pools, captures, tenants ---------------------------------------------------------------------

  /**
   * A new id that this allocator has not given yet.
   *
   * @param forGraph false: of the form (0, k); true: (k, 0)
   * @return the id
   */
  public PoolId newPoolId(boolean forGraph) {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(Native.poolNewId(scratch.handle, forGraph ? 1 : 0, scratch.out, scratch.error));
      return new PoolId(scratch.outLong(), scratch.outLong(1));
    }
  }

  /**
   * Creates a private pool with a new id.
   *
   * @param device the device
   * @param options how it is made
   * @return the pool; close it
   */
  public Pool createPool(int device, PoolOptions options) {
    Objects.requireNonNull(options, "options");
    return joinPool(device, newPoolId(false), options);
  }

  /**
   * Creates a private pool, or joins the one that has this id.
   *
   * @param device the device
   * @param id its id
   * @param options how it is made; flags count for a pool that exists too, a source does not
   * @return the pool; close it
   * @throws IllegalStateException for a pool that was released, or for a source of a pool that exists
   */
  public Pool joinPool(int device, PoolId id, PoolOptions options) {
    Objects.requireNonNull(options, "options");
    PoolKey key = pool(device, id);
    key.create(options);
    return new Pool(key);
  }

  /**
   * A pool by device and id, which need not exist.
   *
   * @param device the device
   * @param id its id
   * @return the functions of the library, one by one
   */
  public PoolKey pool(int device, PoolId id) {
    return new PoolKey(this, device, Objects.requireNonNull(id, "id"));
  }

  /**
   * Marks a graph capture: until the scope is closed, calls on captured streams make no driver call that a capture
   * forbids.
   *
   * @param device the device
   * @return close it
   */
  public CaptureScope capture(int device) {
    captureBegin(device);
    return new CaptureScope(this, device);
  }

  /**
   * Marks the begin of a graph capture.
   *
   * @param device the device
   */
  public void captureBegin(int device) {
    core.call((allocator, error) -> Native.captureBegin(allocator, device, error));
  }

  /**
   * Marks the end of a graph capture.
   *
   * @param device the device
   * @throws IllegalStateException without a begin
   */
  public void captureEnd(int device) {
    core.call((allocator, error) -> Native.captureEnd(allocator, device, error));
  }

  /**
   * Makes a tenant.
   *
   * @param options how it is made
   * @return the tenant; close it
   * @throws IllegalArgumentException for a limit below the guarantee, a name that is too long, or guarantees that
   *     together are more than a device has
   * @throws UnsupportedOperationException under {@code backend:cudaMallocAsync}
   */
  public Tenant createTenant(TenantOptions options) {
    return Tenant.create(this, Objects.requireNonNull(options, "options"));
  }

  // ---- Pinned host memory -----------------------------------------------------------------------------

  /**
   * Hands out pinned host memory: buffers that copies to and from devices go through without a stop. One cache
   * serves all devices and all threads. Labels and tenants of the thread count where it is cached as a device's
   * ({@link AllocatorBuilder#pinnedConfig(String)}); a tenant is one of {@link #pinnedAllocator} then.
   *
   * @param size bytes; 0 gives an empty block
   * @return the block; close it. It has what its last owner left
   * @throws DriverException where the driver refuses, also for want of memory, as in PyTorch
   * @throws CachalotException where memory or the limit is short and pinned memory is cached as a device's
   * @throws UnsupportedOperationException where the driver has no pinned memory
   */
  public PinnedBlock allocatePinned(long size) {
    return PinnedBlock.allocate(this, Arguments.size(size, "size"));
  }

  /**
   * The same, made while a stream is the thread's current one: by it captures into graphs take requests ({@link
   * #routePinned}).
   *
   * @param size bytes; 0 gives an empty block
   * @param device of the stream
   * @param current the current stream; 0: the default stream
   * @return the block; close it
   * @throws DriverException where the driver refuses, also for want of memory, as in PyTorch
   * @throws IllegalArgumentException for a negative size, or a device that the driver does not have
   */
  public PinnedBlock allocatePinned(long size, int device, long current) {
    return PinnedBlock.allocate(this, Arguments.size(size, "size"), device, current);
  }

  /** Gives cached pinned memory back to the driver, that of graphs' pools without users too. */
  public void emptyPinnedCache() {
    core.call(Native::pinnedEmptyCache);
  }

  /**
   * The statistics of pinned memory.
   *
   * @return all of them
   */
  public PinnedStats pinnedStats() {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(
          Native.pinnedGetStats(scratch.handle, scratch.sized(Structs.PinnedStats.SIZE), scratch.error));
      return PinnedStats.of(Structs.PinnedStats.read(scratch.memory(), Scratch.struct()));
    }
  }

  /** Sets every peak of pinned memory to its current value. */
  public void resetPinnedPeakStats() {
    core.call(Native::pinnedResetPeakStats);
  }

  /** Sets all sums of pinned memory, and the times, to 0. */
  public void resetPinnedAccumulatedStats() {
    core.call(Native::pinnedResetAccumulatedStats);
  }

  /**
   * Routes requests of pinned memory to a pool, as a capture into a graph does, until the scope is closed. The pool
   * has a user until {@link PinnedPoolScope#pool} is closed. Of several routings that take a request the oldest has
   * it.
   *
   * @param device the one that {@link Route#capture} asks
   * @param id the same as of the device's pool, or another
   * @param route which requests
   * @return close it
   * @throws IllegalStateException if the pool is being routed to already, or was released
   * @throws UnsupportedOperationException where pinned memory is cached as a device's
   */
  public PinnedPoolScope routePinned(int device, PoolId id, Route route) {
    PinnedPoolKey key = pinnedPool(id);
    key.beginOrLeave(device, Objects.requireNonNull(route, "route"));
    return new PinnedPoolScope(new PinnedPool(key));
  }

  /**
   * A pool of pinned memory by its id, which need not exist.
   *
   * @param id its id
   * @return the functions of the library, one by one
   */
  public PinnedPoolKey pinnedPool(PoolId id) {
    return new PinnedPoolKey(this, Objects.requireNonNull(id, "id"));
  }

  /**
   * The allocator that has the pinned memory where that is cached as a device's ({@link
   * AllocatorBuilder#pinnedConfig(String)}). It is as one with one device, whose memory is the machine's: limits,
   * trims, tenants, labels, statistics, reports, snapshots, history, recorders and metrics are those of any allocator,
   * but its pools have no source. Pinned blocks come from the allocator that this one belongs to.
   *
   * <p>It is borrowed: it ends with that one, and closing it does nothing.
   *
   * @return the same one each time; empty where pinned memory is cached as in PyTorch
   */
  public Optional<Allocator> pinnedAllocator() {
    return Optional.ofNullable(pinned);
  }

  // ---- Memory between processes ------------------------------------------------------------------------

  /**
   * Opens a block that another process shares.
   *
   * @param device of this allocator
   * @param ticket what {@link SharedBlock#ticket} gave there
   * @return the block; close it
   * @throws IllegalArgumentException for a text that is no ticket
   * @throws IllegalStateException where the block or its process is gone
   * @throws DriverException where the driver refuses the memory
   */
  public OpenedBlock openBlock(int device, String ticket) {
    return OpenedBlock.open(this, device, ticket);
  }

  /**
   * What another process, also one of PyTorch's, needs to open the memory under a block. It says nothing of lifetimes:
   * the process that shares the block keeps it.
   *
   * @param address of a live block
   * @return PyTorch's bytes, and an offset
   * @throws IllegalArgumentException where no live block begins there
   * @throws UnsupportedOperationException for memory that cannot be shared
   */
  public SharedHandle share(long address) {
    for (int capacity = 4096;;) {
      try (Scratch scratch = Scratch.enter(core); Memory memory = new Memory()) {
        ByteBuffer handle = memory.allocate(capacity);
        scratch.check(Native.share(scratch.handle, address, Memory.addressOf(handle), capacity, scratch.out,
            scratch.out(1), scratch.error));
        if (scratch.outLong() <= capacity) {
          byte[] bytes = new byte[(int) scratch.outLong()];
          handle.get(bytes);
          return new SharedHandle(bytes, scratch.outLong(1));
        }
        capacity = Math.toIntExact(scratch.outLong());
      }
    }
  }

  /**
   * Opens memory that another process shares.
   *
   * @param device the device
   * @param shared what the other process sent
   * @return the memory; close it
   * @throws IllegalArgumentException for bytes that are no handle
   * @throws IllegalStateException where the process is gone or may not be asked
   * @throws DriverException where the memory is gone
   */
  public OpenedMemory openShared(int device, SharedHandle shared) {
    return OpenedMemory.open(this, device, shared);
  }

  // ---- Copies ---------------------------------------------------------------------------------------

  /**
   * Copies between devices, or within one, on a stream; does not wait. The devices need no access to each
   * other. An address may also be one of pinned host memory.
   *
   * @param to where to
   * @param toDevice on which device
   * @param from where from
   * @param fromDevice on which device
   * @param size bytes
   * @param stream of toDevice
   * @throws IllegalArgumentException for an unknown device, an address 0, or all streams
   * @throws UnsupportedOperationException for a custom driver without copies
   */
  public void copy(long to, int toDevice, long from, int fromDevice, long size, long stream) {
    Arguments.size(size, "size");
    core.call((allocator, error) ->
        Native.copy(allocator, to, toDevice, from, fromDevice, size, stream, error));
  }
}
