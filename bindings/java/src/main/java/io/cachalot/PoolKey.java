// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * A pool by device and id. Its methods are the functions of the library, one by one, and the balance of creating,
 * beginning, ending and releasing is the caller's; {@link Pool} keeps it by itself.
 *
 * <p>A pool has a use count: creating or joining it and each beginning of a routing add 1, releasing takes 1 away; at
 * 0 its memory may be given back and it cannot be joined again.
 */
public final class PoolKey {
  private final Allocator allocator;
  private final int device;
  private final PoolId id;

  PoolKey(Allocator allocator, int device, PoolId id) {
    this.allocator = allocator;
    this.device = device;
    this.id = id;
  }

  /** A function of the pool. */
  @FunctionalInterface
  private interface Call {
    int call(long allocator, long first, long second, long error);
  }

  private void call(Call call) {
    allocator.core.call((owner, error) -> call.call(owner, id.first(), id.second(), error));
  }

  /**
   * Whose pool it is.
   *
   * @return the allocator
   */
  public Allocator allocator() {
    return allocator;
  }

  /**
   * Where it is.
   *
   * @return the device
   */
  public int device() {
    return device;
  }

  /**
   * Its name.
   *
   * @return the id
   */
  public PoolId id() {
    return id;
  }

  /**
   * Creates the pool, or joins the one that has this id.
   *
   * @param options how it is made
   * @throws IllegalStateException for a pool that was released, or for a source of a pool that exists: nothing has
   *     changed
   */
  public void create(PoolOptions options) {
    Objects.requireNonNull(options, "options");
    try (Memory memory = new Memory()) {
      long written = options.toC().write(memory);
      call((owner, first, second, error) -> Native.poolCreate(owner, device, first, second, written, error));
    }
  }

  /**
   * Creates or joins the pool and routes requests to it from now on. Of several routings the newest that takes a
   * request has it.
   *
   * @param route which requests
   * @throws IllegalStateException if the pool is being routed to already (its use count has been raised by then)
   */
  public void begin(Route route) {
    Objects.requireNonNull(route, "route");
    try (Memory memory = new Memory()) {
      long written = route.toC().write(memory);
      call((owner, first, second, error) -> Native.poolBegin(owner, device, first, second, written, error));
    }
  }

  /** Ends the routing. The use count stays: {@link #release} for the beginning too. */
  public void end() {
    call((owner, first, second, error) -> Native.poolEnd(owner, device, first, second, error));
  }

  /** Ends a routing that has begun, for a caller that has the allocator in use; its use of the pool goes anyway. */
  void leave(Scratch scratch) {
    try {
      scratch.check(Native.poolEnd(scratch.handle, device, id.first(), id.second(), scratch.error));
    } finally {
      leaveUse(scratch);
    }
  }

  /** {@link #release} for a caller that has the allocator in use. */
  void leaveUse(Scratch scratch) {
    scratch.check(Native.poolRelease(scratch.handle, device, id.first(), id.second(), scratch.error));
  }

  /**
   * The same, made while this is the thread's current stream.
   *
   * @param current the stream
   */
  public void end(long current) {
    call((owner, first, second, error) -> Native.poolEndOnStream(owner, device, first, second, current, error));
  }

  /**
   * Lowers the use count.
   *
   * @throws IllegalStateException for an unknown pool or a count below 0
   */
  public void release() {
    call((owner, first, second, error) -> Native.poolRelease(owner, device, first, second, error));
  }

  /** Gives the cached memory of a pool with use count 0 back. Any other pool: nothing. */
  public void empty() {
    call((owner, first, second, error) -> Native.poolEmpty(owner, device, first, second, error));
  }

  /**
   * The same, made while this is the thread's current stream.
   *
   * @param current the stream
   */
  public void empty(long current) {
    call((owner, first, second, error) -> Native.poolEmptyOnStream(owner, device, first, second, current, error));
  }

  /**
   * Lets the pool's cached blocks serve requests that would fail. The pool need not exist.
   *
   * @param use whether they do
   */
  public void setUseOnOom(boolean use) {
    call((owner, first, second, error) ->
        Native.poolSetUseOnOom(owner, device, first, second, use ? 1 : 0, error));
  }

  /** Blocks of this pool are not split from now on. The pool need not exist. */
  public void setNoSplit() {
    call((owner, first, second, error) -> Native.poolSetNoSplit(owner, device, first, second, error));
  }

  /**
   * Pins the pool's memory, present and future, or ends that; see {@link PoolFlag#PINNED}. A pool that is in use keeps
   * its memory anyway.
   *
   * @param pinned whether it is
   * @throws IllegalStateException for a pool that does not exist
   */
  public void setPinned(boolean pinned) {
    call((owner, first, second, error) ->
        Native.poolSetPinned(owner, device, first, second, pinned ? 1 : 0, error));
  }

  /**
   * Makes each block of the pool a whole allocation of the driver from now on, as handles for other processes (CUDA
   * IPC) need it. Cached blocks go back to the driver: the pool reserves at most a quarter more than was in
   * use at its peak. A pool that a graph is captured into has to be pinned as well.
   *
   * @throws IllegalStateException for a pool that does not exist, or that has memory of another kind
   */
  public void setWholeBlocks() {
    call((owner, first, second, error) -> Native.poolSetWholeBlocks(owner, device, first, second, error));
  }

  /**
   * The use count.
   *
   * @return the count
   * @throws IllegalStateException for a pool that does not exist
   */
  public int useCount() {
    try (Scratch scratch = Scratch.enter(allocator.core)) {
      scratch.check(Native.poolUseCount(scratch.handle, device, id.first(), id.second(), scratch.out, scratch.error));
      return scratch.outInt();
    }
  }

  /**
   * Whether the pool's blocks that are handed out are exactly these.
   *
   * @param addresses the addresses
   * @return whether they are
   * @throws IllegalArgumentException for an unknown pool
   */
  public boolean hasLive(long... addresses) {
    Objects.requireNonNull(addresses, "addresses");
    try (Scratch scratch = Scratch.enter(allocator.core); Memory memory = new Memory()) {
      ByteBuffer list = memory.allocate(Math.max(1, Long.BYTES * addresses.length));
      list.asLongBuffer().put(addresses);
      scratch.check(Native.poolHasLive(scratch.handle, device, id.first(), id.second(), Memory.addressOf(list),
          addresses.length, scratch.out, scratch.error));
      return scratch.outInt() != 0;
    }
  }

  /**
   * Takes a checkpoint.
   *
   * @return the checkpoint
   * @throws IllegalArgumentException for an unknown pool
   * @throws IllegalStateException while a freed block of the pool waits for a stream
   */
  public Checkpoint checkpoint() {
    return Checkpoint.take(this);
  }

  /**
   * Puts a pool of this device back: all its blocks are freed, and those of the checkpoint are handed out again, at
   * their addresses. A {@link Block} that the program has of the pool is not to be used any more, nor closed: free what
   * was created by its addresses.
   *
   * @param checkpoint of {@link #checkpoint}
   * @return what was freed and created
   * @throws IllegalStateException where the pool is not as the checkpoint needs it, and nothing has changed
   * @throws IllegalArgumentException for blocks that are no segment of the pool
   */
  public CheckpointChanges apply(Checkpoint checkpoint) {
    return Objects.requireNonNull(checkpoint, "checkpoint").apply(allocator, device);
  }

  /**
   * Gives the pool's memory back to the driver and keeps its addresses, which are right again once the pool is awake.
   * The memory has to be in expandable segments ({@code expandable_segments:True}). All work of the device is waited
   * for; what is kept is copied to pinned host memory on the stream, and that is waited for too.
   *
   * <p>While the pool sleeps its blocks count for nobody. They can be closed; all else that is asked of them is an
   * {@link IllegalStateException}. Nothing may touch the memory, from now on until the pool is awake: no work that is
   * queued, and no buffer ({@link Block#asByteBuffer}). On Java 22 and later the buffers of the pool's blocks end with
   * this call, also where the pool then cannot sleep, and a block that is awake gives a new one. Before, nothing can
   * be taken away from a buffer: one that is used while its pool sleeps ends the virtual machine.
   *
   * @param contents what becomes of what lies in the memory
   * @param stream that copies; of the device
   * @return the bytes that the driver has back
   * @throws IllegalStateException for a pool that does not exist, that is not awake, that requests are routed to, or
   *     that is pinned, and while a capture may be under way; while another thread reads or writes a buffer of one of
   *     its blocks
   * @throws UnsupportedOperationException for memory that cannot come back at its addresses, and for a driver that
   *     cannot keep contents
   * @throws DriverException also where there is no pinned memory; the pool is as it was
   */
  public long sleep(SleepContents contents, long stream) {
    int number = Objects.requireNonNull(contents, "contents").number();
    allocator.core.endBuffers(device, id);
    return allocator.core.ask((owner, out, error) ->
        Native.poolSleep(owner, device, id.first(), id.second(), number, stream, out, error));
  }

  /**
   * Gives a pool that sleeps new memory at its addresses, queues the copies of what was kept, and hands its blocks out
   * again. Nobody waits for the copies: work on other streams has to come behind them. What was discarded is
   * undefined.
   *
   * @param stream that copies; of the device
   * @throws OutOfDeviceMemoryException where there is not enough memory, or a tenant is not granted its blocks: the
   *     pool sleeps on, with its contents, and the call can be repeated
   * @throws IllegalStateException for a pool that does not exist or does not sleep, and while a capture may be under
   *     way
   * @throws DriverException the pool sleeps on
   */
  public void wake(long stream) {
    call((owner, first, second, error) -> Native.poolWake(owner, device, first, second, stream, error));
  }

  /**
   * What becomes of the pool's blocks with a label, whatever {@link #sleep} says: weights are kept and a cache is
   * discarded, say.
   *
   * @param label as {@link LabelStats} has it
   * @param contents {@link SleepContents#DISCARD} or {@link SleepContents#KEEP}
   * @throws IllegalStateException for a pool that does not exist, or where labels are not tracked
   * @throws IllegalArgumentException for other contents, or an empty label
   */
  public void setSleepContents(String label, SleepContents contents) {
    int number = Objects.requireNonNull(contents, "contents").number();
    try (Memory memory = new Memory()) {
      long text = Texts.toC(memory, Objects.requireNonNull(label, "label"));
      call((owner, first, second, error) ->
          Native.poolSetSleepContents(owner, device, first, second, text, number, error));
    }
  }

  /**
   * What sleeps of the pool.
   *
   * @return the numbers
   * @throws IllegalStateException for a pool that does not exist
   */
  public SleepStats sleepStats() {
    return SleepStats.ask(allocator.core, device, id);
  }

  /** Device and id. */
  @Override
  public String toString() {
    return "pool (" + id.first() + ", " + id.second() + ") of device " + device;
  }
}
