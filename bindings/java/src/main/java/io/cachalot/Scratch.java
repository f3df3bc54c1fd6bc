// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Structs;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;

/**
 * Native memory for one call at a time: its error, its results, one struct. A thread has one of its own, so that a
 * call makes no garbage; calls from within callbacks, and virtual threads, take one from a pool.
 *
 * <p>It also says which {@link Resource} its call uses. Who closes one looks at all of these after having marked
 * it closed, and a call looks at the mark after having written this, so one of the two sees the other.
 */
final class Scratch extends ScratchFields implements AutoCloseable {
  private static final int OUT = 4224;
  private static final int STRUCT = 4352;
  private static final int SIZE = 8192;

  private static final VarHandle USING;

  static {
    try {
      USING = MethodHandles.lookup().findVarHandle(ScratchFields.class, "using", Resource.class);
    } catch (ReflectiveOperationException impossible) {
      throw new ExceptionInInitializerError(impossible);
    }
  }

  /** All there are. Threads refer to theirs weakly, so that they do not keep these classes loaded. */
  private static final CopyOnWriteArrayList<Scratch> ALL = new CopyOnWriteArrayList<>();
  private static final ConcurrentLinkedDeque<Scratch> POOL = new ConcurrentLinkedDeque<>();
  private static final ThreadLocal<WeakReference<Scratch>> LOCAL = new ThreadLocal<>();
  private static final ThreadLocal<int[]> LOCKED = ThreadLocal.withInitial(() -> new int[1]);

  private final ByteBuffer memory;
  private final long start;
  /** The thread whose own this is; null: of the pool. */
  private WeakReference<Thread> owner;
  /** The thread of the call, of one from the pool. */
  private volatile Thread borrower;
  private boolean busy;
  private WeakReference<Guard.Spare> spareGuards = new WeakReference<>(null);
  /** The address of what the call uses. */
  long handle;
  /** Where a call writes its error. */
  final long error;
  /** Where it writes results that are no struct: up to 16 of 8 bytes. */
  final long out;

  private Scratch(Thread owner) {
    Library.load();
    memory = ByteBuffer.allocateDirect(SIZE).order(ByteOrder.nativeOrder());
    start = Memory.addressOf(memory);
    memory.putLong(0, Structs.Error.SIZE);
    error = start;
    out = start + OUT;
    this.owner = owner == null ? null : new WeakReference<>(owner);
    ALL.add(this);
  }

  // ---- A call -----------------------------------------------------------------------------------

  /** For a call that uses nothing that can be closed. */
  static Scratch enter() {
    Thread thread = Thread.currentThread();
    if (!Threads.isVirtual(thread)) {
      Scratch own = own(thread);
      if (!own.busy) {
        own.busy = true;
        USING.setOpaque(own, null);  // An overflow of the stack may have left it.
        return own;
      }
    }
    return another(thread);
  }

  /** For a call that uses this; it must be closed when the call has returned. */
  static Scratch enter(Resource resource) {
    Scratch scratch = enterIfOpen(resource);
    if (scratch == null) {
      throw resource.closed();
    }
    return scratch;
  }

  /** The same; null if it is closed. */
  static Scratch enterIfOpen(Resource resource) {
    Scratch scratch = enter();
    boolean isOpen = false;
    try {
      isOpen = scratch.useIfOpen(resource);
    } finally {
      if (!isOpen) {
        scratch.close();
      }
    }
    return isOpen ? scratch : null;
  }

  /** For a scratch that uses nothing yet: whether it can be used. */
  boolean useIfOpen(Resource resource) {
    if (owner == null) {
      refuseUnderLock(resource);
    }
    Resource holder = resource.holder;
    while (true) {
      USING.setVolatile(this, holder);
      // One look: of two, the second could find it ended and the first not.
      long state = resource.state();
      handle = resource.address(state);
      if ((state & Resource.CLOSING) == 0) {
        return state != 0;
      }
      USING.setVolatile(this, null);
      if (isUsedHere(holder)) {
        // Closing waits for the call that this one is made from.
        USING.setVolatile(this, holder);
        return true;
      }
      holder.awaitOutcome();
    }
  }

  static void refuseUnderLock(Resource resource) {
    if (resource.takesLocks() && LOCKED.get()[0] > 0) {
      throw new IllegalStateException("this callback runs under a lock of the allocator, and must not call it");
    }
  }

  @Override
  public void close() {
    USING.setRelease(this, null);
    if (owner != null) {
      busy = false;
    } else {
      borrower = null;
      POOL.push(this);
    }
  }

  private static Scratch own(Thread thread) {
    WeakReference<Scratch> reference = LOCAL.get();
    Scratch own = reference == null ? null : reference.get();
    return own != null ? own : adopt(thread);
  }

  /** How many there are, for tests. */
  static int count() {
    return ALL.size();
  }

  /** Finds its own where its thread locals were erased, takes over that of a thread that has ended, or makes one. */
  private static synchronized Scratch adopt(Thread thread) {
    Scratch adopted = null;
    for (Scratch each : ALL) {
      WeakReference<Thread> reference = each.owner;
      if (reference != null && reference.get() == thread) {
        adopted = each;
        break;
      }
      if (adopted == null && reference != null && hasEnded(reference.get())) {
        adopted = each;
      }
    }
    if (adopted == null) {
      adopted = new Scratch(thread);
    } else if (adopted.owner.get() != thread) {
      USING.setRelease(adopted, null);
      adopted.busy = false;
      adopted.owner = new WeakReference<>(thread);
    }
    LOCAL.set(new WeakReference<>(adopted));
    return adopted;
  }

  private static boolean hasEnded(Thread thread) {
    return thread == null || !thread.isAlive();
  }

  private static Scratch another(Thread thread) {
    Scratch scratch = POOL.poll();
    if (scratch == null) {
      scratch = new Scratch(null);
    }
    scratch.borrower = thread;
    return scratch;
  }

  // ---- Closing ----------------------------------------------------------------------------------

  private boolean isOf(Thread thread) {
    WeakReference<Thread> reference = owner;
    return reference == null ? borrower == thread : reference.get() == thread;
  }

  /** Whether a call of this thread uses it, which is the case within its callbacks. */
  static boolean isUsedHere(Resource resource) {
    Thread thread = Thread.currentThread();
    for (Scratch each : ALL) {
      if (USING.getVolatile(each) == resource && each.isOf(thread)) {
        return true;
      }
    }
    return false;
  }

  /** Waits until the last call has returned that uses what is being closed. */
  static void awaitUnused(Resource resource) {
    for (Scratch each : ALL) {
      for (int round = 0; USING.getVolatile(each) == resource && !each.isForsaken(); round++) {
        if (round < 100) {
          Thread.onSpinWait();
        } else {
          LockSupport.parkNanos(50_000);
        }
      }
    }
  }

  /** Whether its thread ended within a call, by an overflow of the stack. */
  private boolean isForsaken() {
    WeakReference<Thread> reference = owner;
    Thread user = reference == null ? borrower : reference.get();
    return hasEnded(user);
  }

  // ---- Callbacks under a lock -------------------------------------------------------------------

  /** Runs a callback that must not call back; calls that it tries are refused instead of waiting for ever. */
  static <T> T underLock(Supplier<T> callback) {
    Thread thread = Thread.currentThread();
    int[] depth = LOCKED.get();
    Scratch own = Threads.isVirtual(thread) ? null : own(thread);
    boolean wasBusy = own != null && own.busy;
    depth[0]++;
    if (own != null) {
      own.busy = true;
    }
    try {
      return callback.get();
    } finally {
      depth[0]--;
      if (own != null) {
        own.busy = wasBusy;
      }
    }
  }

  Guard.Spare spareGuards() {
    Guard.Spare spare = spareGuards.get();
    if (spare == null) {
      spare = new Guard.Spare();
      spareGuards = new WeakReference<>(spare);
    }
    return spare;
  }

  // ---- Memory -----------------------------------------------------------------------------------

  /** Throws what a status stands for. */
  void check(int status) {
    if (status != Constants.OK) {
      throw Errors.of(status, Structs.Error.read(memory, 0));
    }
  }

  long outLong() {
    return memory.getLong(OUT);
  }

  long outLong(int index) {
    return memory.getLong(OUT + Long.BYTES * index);
  }

  int outInt() {
    return memory.getInt(OUT);
  }

  double outDouble() {
    return memory.getDouble(OUT);
  }

  /** The address of the result with this number. */
  long out(int index) {
    return out + (long) Long.BYTES * index;
  }

  void clearOut() {
    memory.putLong(OUT, 0);
  }

  /** Memory for a struct that says its own size; its address. */
  long sized(int size) {
    memory.putLong(STRUCT, size);
    return start + STRUCT;
  }

  /** Where {@link #sized} is, for reading it. */
  ByteBuffer memory() {
    return memory;
  }

  static int struct() {
    return STRUCT;
  }

  long structAddress() {
    return start + STRUCT;
  }
}
