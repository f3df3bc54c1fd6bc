// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * What blocks, tenants and the cleaner need of an allocator. An allocator that was collected ends once its last
 * block has been, in whatever order the collector finds them.
 */
final class AllocatorCore extends Resource {
  private final boolean isBorrowed;
  /** References for callbacks without a destroy function. */
  private final Memory.Keep kept;
  private volatile boolean isAbandoned;
  /** Tenants that were collected while they had live blocks. */
  private final Deque<Resource> orphans = new ArrayDeque<>();
  /** How many closed blocks are not freed yet, since somebody may use their memory. */
  private int leftToBuffers;
  /** Those of them that nobody uses any more. Its lock is that of these three. */
  private final List<Long> late = new ArrayList<>();
  /** The allocator, where it has been closed and ends with the last of these; else 0. */
  private long waiting;
  /** What was lent of its blocks. */
  private final Collection<WeakReference<HostView>> views = new ConcurrentLinkedQueue<>();

  AllocatorCore(long address, Memory.Keep kept, boolean isBorrowed) {
    super("allocator", address);
    this.kept = kept;
    this.isBorrowed = isBorrowed;
  }

  @Override
  void destroy(long address, Scratch scratch) {
    if (isBorrowed) {
      return;
    }
    synchronized (late) {
      freeLate(address);
      int status = Native.allocatorDestroy(address, scratch.error);
      if (status == Constants.ERROR_INVALID_STATE && leftToBuffers > 0 && liveBlocks(address) == leftToBuffers) {
        waiting = address;
        return;
      }
      scratch.check(status);
    }
  }

  private static long liveBlocks(long address) {
    try (Scratch scratch = Scratch.enter()) {
      long blocks = 0;
      int devices = Native.driverDeviceCount(Native.allocatorDriver(address));
      for (int device = 0; device < devices; device++) {
        scratch.check(Native.getStats(address, device, scratch.sized(Structs.Stats.SIZE), scratch.error));
        blocks += Structs.Stats.read(scratch.memory(), Scratch.struct()).allocation.all.current;
      }
      return blocks;
    }
  }

  // ---- Memory of closed blocks that somebody may read and write still (before Java 22) ------------

  /** A closed block is freed later, by {@link #freeAfterBuffer}. */
  void leaveToBuffer() {
    synchronized (late) {
      leftToBuffers++;
    }
  }

  void freeAfterBuffer(long address) {
    synchronized (late) {
      if (waiting == 0) {
        late.add(address);
      } else {
        Native.free(waiting, address, 0);
        leftToBuffers--;
        endWaiting();
        return;
      }
    }
    try (Scratch scratch = Scratch.enterIfOpen(this)) {
      if (scratch != null) {
        synchronized (late) {
          freeLate(scratch.handle);
        }
      }
    }
    endIfAbandoned();
  }

  private void freeLate(long allocator) {
    for (long address : late) {
      Native.free(allocator, address, 0);
      leftToBuffers--;
    }
    late.clear();
  }

  private void endWaiting() {
    if (leftToBuffers == 0) {
      Native.allocatorDestroy(waiting, 0);
      waiting = 0;
      keepNothing();
    }
  }

  /** Remembers a buffer of one of its blocks. */
  void lent(HostView view) {
    views.removeIf(each -> each.get() == null);
    views.add(new WeakReference<>(view));
  }

  void closeAll() {
    synchronized (late) {
      if (leftToBuffers > late.size()) {
        throw new IllegalStateException("somebody may have a buffer of a closed block still");
      }
    }
    for (WeakReference<HostView> each : views) {
      HostView view = each.get();
      if (view != null && view.isInUse()) {
        throw new IllegalStateException("somebody may have a buffer of a block still");
      }
    }
    for (WeakReference<HostView> each : views) {
      HostView view = each.get();
      if (view != null) {
        view.end();
      }
    }
    close((address, scratch) -> {
      if (!isBorrowed) {
        scratch.check(Native.allocatorDestroyAll(address, scratch.error));
      }
    });
  }

  @Override
  boolean takesLocks() {
    return true;
  }

  @Override
  void ended() {
    if (waiting == 0) {
      keepNothing();
    }
  }

  private void keepNothing() {
    if (kept != null) {
      kept.close();
    }
    endOrphans();
  }

  @Override
  void abandoned() {
    isAbandoned = true;
  }

  /** Frees for a caller that has the allocator in use. */
  void free(Scratch scratch, long address, boolean hasCurrent, long current) {
    boolean isAmbient = Ambient.begin();
    try {
      scratch.check(hasCurrent ? Native.freeOnStream(scratch.handle, address, current, scratch.error)
          : Native.free(scratch.handle, address, scratch.error));
    } finally {
      Ambient.end(isAmbient);
    }
  }

  /** Frees for the cleaner; the last one ends an allocator that nobody has any more. */
  void freeAbandoned(long address) {
    try (Scratch scratch = Scratch.enterIfOpen(this)) {
      if (scratch != null) {
        Native.free(scratch.handle, address, scratch.error);
      } else {
        // It is being closed, or has ended; if the former fails the block is freed with the next try.
        synchronized (late) {
          late.add(address);
          leftToBuffers++;
        }
      }
    }
    endIfAbandoned();
  }

  private void endIfAbandoned() {
    if (isAbandoned && !isClosed()) {
      run();
    }
  }

  void adoptOrphan(Resource tenant) {
    synchronized (orphans) {
      orphans.add(tenant);
    }
    if (isClosed()) {
      endOrphans();
    }
  }

  private void endOrphans() {
    while (true) {
      Resource orphan;
      synchronized (orphans) {
        orphan = orphans.poll();
      }
      if (orphan == null) {
        return;
      }
      try {
        orphan.close();
      } catch (RuntimeException refused) {
        return;  // Its thread has not ended its scope; the handle is a few bytes.
      }
    }
  }

  // ---- Calls of one kind ------------------------------------------------------------------------

  /** A function of the allocator. */
  @FunctionalInterface
  interface Call {
    int call(long allocator, long error);
  }

  void call(Call call) {
    try (Scratch scratch = Scratch.enter(this)) {
      scratch.check(call.call(scratch.handle, scratch.error));
    }
  }

  /** A function that gives a number. */
  @FunctionalInterface
  interface Ask {
    int call(long allocator, long out, long error);
  }

  long ask(Ask call) {
    try (Scratch scratch = Scratch.enter(this)) {
      scratch.clearOut();
      scratch.check(call.call(scratch.handle, scratch.out, scratch.error));
      return scratch.outLong();
    }
  }

  /** A function that writes a text. */
  @FunctionalInterface
  interface TextOf {
    int call(long allocator, long buffer, long capacity, long outLength, long error);
  }

  String text(TextOf call) {
    try (Scratch scratch = Scratch.enter(this)) {
      return Texts.of(scratch, (buffer, capacity, length, error) ->
          call.call(scratch.handle, buffer, capacity, length, error));
    }
  }

  /** A function that takes a text. */
  @FunctionalInterface
  interface TextTo {
    int call(long allocator, long text, long error);
  }

  void tell(String text, TextTo call) {
    try (Memory memory = new Memory()) {
      long address = Texts.toC(memory, text);
      call((allocator, error) -> call.call(allocator, address, error));
    }
  }

  /** A function that attaches an observer. */
  @FunctionalInterface
  interface Attach {
    int call(long allocator, long function, long userData, long destroy, long outId, long error);
  }

  /** How a row of a list is asked for and read. */
  abstract static class Row<T> {
    abstract int ask(long allocator, long index, long out, long error);

    abstract T read(ByteBuffer from, int at);
  }

  <T> List<T> rows(Ask count, int size, Row<T> row) {
    List<T> rows = new ArrayList<>();
    long rowCount = ask(count);
    try (Scratch scratch = Scratch.enter(this)) {
      for (long i = 0; i < rowCount; i++) {
        scratch.check(row.ask(scratch.handle, i, scratch.sized(size), scratch.error));
        rows.add(row.read(scratch.memory(), Scratch.struct()));
      }
    }
    return List.copyOf(rows);
  }
}
