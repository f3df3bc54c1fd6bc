// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.lang.ref.WeakReference;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A user of an allocator that is counted by itself: a model of a server, say. It has a guarantee, a limit, a
 * priority, and a callback that is asked to give memory back. {@code docs/serving.md} has the rules.
 */
public final class Tenant implements AutoCloseable {
  private final Allocator allocator;
  final Core core;

  /** What is left of a tenant when it has been collected. */
  static final class Core extends Resource implements Ambient.Scope {
    private final AllocatorCore owner;
    /** Weakly, since a callback may refer to the allocator. */
    private final WeakReference<Listeners> listeners;
    /** null: it is never asked. */
    private final Listeners.Ref<PressureCallback> callback;
    /** How many virtual threads it is the tenant of; the library knows of the others. */
    private final AtomicInteger virtualThreads = new AtomicInteger();

    Core(AllocatorCore owner, long address, Listeners listeners, Listeners.Ref<PressureCallback> callback) {
      super("tenant", address);
      this.owner = owner;
      this.listeners = new WeakReference<>(listeners);
      this.callback = callback;
    }

    /** Makes it the tenant of a virtual thread; the depth. */
    int push() {
      Scratch inUse = Scratch.enter(this);
      try {
        int depth = Ambient.push(this);
        virtualThreads.incrementAndGet();
        return depth;
      } finally {
        inUse.close();
      }
    }

    void pop(int depth) {
      Ambient.pop(depth, "the tenant");
      virtualThreads.decrementAndGet();
    }

    @Override
    public int tell() {
      return Native.tenantBegin(address(), 0);
    }

    @Override
    public int takeBack() {
      return Native.tenantEnd(address(), 0);
    }

    @Override
    void destroy(long address, Scratch scratch) {
      if (virtualThreads.get() > 0) {
        throw new IllegalStateException("the tenant is that of a virtual thread");
      }
      scratch.check(Native.tenantDestroy(address, scratch.error));
    }

    @Override
    void ended() {
      Listeners open = listeners.get();
      if (open != null && callback != null) {
        open.remove(callback);
      }
    }

    @Override
    boolean takesLocks() {
      return true;
    }

    @Override
    void abandoned() {
      owner.adoptOrphan(this);
    }
  }

  private Tenant(Allocator allocator, long address, Listeners.Ref<PressureCallback> callback) {
    this.allocator = allocator;
    core = new Core(allocator.core, address, allocator.listeners, callback);
    Cleaners.register(this, core);
  }

  static Tenant create(Allocator allocator, TenantOptions options) {
    PressureCallback callback = options.callback();
    Listeners.Ref<PressureCallback> ref = callback == null ? null : allocator.listeners.add(callback);
    Structs.TenantOptions values = options.toC();
    values.pressure = ref == null ? null : pressure -> ref.get(0L, each -> each.give(Pressure.of(pressure)));
    allocator.core.endOrphans();
    try (Scratch scratch = Scratch.enter(allocator.core); Memory memory = new Memory()) {
      if (values.name != null) {
        Texts.toC(memory, values.name);
      }
      scratch.check(Native.tenantCreate(scratch.handle, values.write(memory), scratch.out, scratch.error));
      return new Tenant(allocator, scratch.outLong(), ref);
    } catch (Throwable thrown) {
      forget(allocator, ref);
      throw thrown;
    }
  }

  private static void forget(Allocator allocator, Listeners.Ref<PressureCallback> callback) {
    if (callback != null) {
      allocator.listeners.remove(callback);
    }
  }

  /**
   * Whose tenant it is.
   *
   * @return the allocator
   */
  public Allocator allocator() {
    return allocator;
  }

  /** A function of the tenant. */
  @FunctionalInterface
  private interface Call {
    int call(long tenant, long error);
  }

  private void call(Call call) {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(call.call(scratch.handle, scratch.error));
    }
  }

  /**
   * {@link Allocator#allocate(long, int, long)} for this tenant.
   *
   * @param size bytes
   * @param device the device
   * @param stream the stream that will use the block
   * @return the block; close it
   * @throws OutOfDeviceMemoryException also for a refusal by the rules of tenants
   * @throws IllegalArgumentException for a negative size, or a device that the driver does not have
   * @throws IllegalStateException while caching is off
   */
  public Block allocate(long size, int device, long stream) {
    Arguments.size(size, "size");
    try (Scratch tenant = Scratch.enter(core); Scratch scratch = Scratch.enter(allocator.core)) {
      scratch.check(Ambient.call(() ->
          Native.allocateFor(scratch.handle, tenant.handle, size, device, stream, scratch.out, scratch.error)));
      return allocator.own(scratch.outLong(), scratch);
    }
  }

  /**
   * Makes this the tenant of all requests of the calling thread that name none, until the scope is closed. These
   * nest. On a virtual thread those of this package are meant; other native code that asks by itself, ONNX Runtime for
   * example, needs a platform thread.
   *
   * @return close it, on the same thread
   */
  public TenantScope enter() {
    return new TenantScope(this);
  }

  /**
   * Guarantee and limit, for later requests. Blocks stay what they are.
   *
   * @param device the device; empty: each
   * @param guaranteedBytes the guarantee
   * @param limitBytes the limit; 0: none
   * @throws IllegalArgumentException for a limit below the guarantee, or guarantees that together are more than the
   *     device has: then nothing is changed
   */
  public void setBytes(OptionalInt device, long guaranteedBytes, long limitBytes) {
    Objects.requireNonNull(device, "device");
    Arguments.size(guaranteedBytes, "guaranteedBytes");
    Arguments.size(limitBytes, "limitBytes");
    call((tenant, error) ->
        Native.tenantSetBytes(tenant, device.orElse(Constants.ALL_DEVICES), guaranteedBytes, limitBytes, error));
  }

  /**
   * The priority, for later requests.
   *
   * @param priority tenants of lower priority give first
   */
  public void setPriority(int priority) {
    call((tenant, error) -> Native.tenantSetPriority(tenant, priority, error));
  }

  /**
   * Lets a pool be put to sleep when the tenant is asked for memory, before its callback is called, which it need not
   * have. Where the pool cannot sleep the callback is called as always. The thread that waits for memory waits for
   * the copies on the stream. The pool need not exist yet.
   *
   * <p>What {@link PoolKey#sleep} says of the memory holds at any time from now on, and no buffer is ended. While
   * requests are routed to a pool it does not fall asleep, and none can be routed to one that sleeps: so a caller
   * that uses the memory may hold a {@link PoolScope} of {@link Route#none}, say.
   *
   * @param pool the pool
   * @param contents what becomes of what lies in its memory
   * @param stream that copies; of the pool's device
   * @throws IllegalArgumentException for a pool of another allocator, or a device that the driver does not have
   */
  public void setSleep(PoolKey pool, SleepContents contents, long stream) {
    setSleep(pool, Objects.requireNonNull(contents, "contents").number(), stream);
  }

  /**
   * Ends what {@link #setSleep} has begun.
   *
   * @param pool the pool
   */
  public void neverSleep(PoolKey pool) {
    setSleep(pool, Constants.SLEEP_NEVER, 0);
  }

  private void setSleep(PoolKey pool, int contents, long stream) {
    PoolId id = Objects.requireNonNull(pool, "pool").id();
    try (Scratch tenant = Scratch.enter(core); Scratch scratch = Scratch.enter(pool.allocator().core)) {
      scratch.check(Native.tenantSetSleep(scratch.handle, tenant.handle, pool.device(), id.first(), id.second(),
          contents, stream, scratch.error));
    }
  }

  /**
   * What it has.
   *
   * @param device on this device
   * @return the numbers
   */
  public TenantStats stats(int device) {
    try (Scratch scratch = Scratch.enter(core)) {
      scratch.check(Native.getTenantStats(scratch.handle, device, scratch.sized(Structs.TenantStats.SIZE),
          scratch.error));
      return TenantStats.of(Structs.TenantStats.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * Ends the tenant, also after its allocator. Again: nothing.
   *
   * @throws IllegalStateException while it has live blocks, or is the tenant of a thread, or from within its own
   *     callback: then it is still there
   */
  @Override
  public void close() {
    core.close();
  }
}
