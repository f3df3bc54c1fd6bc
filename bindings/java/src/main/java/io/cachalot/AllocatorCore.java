// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What blocks, tenants and the cleaner need of an allocator. An allocator that was collected ends once its last
 * block has been, in whatever order the collector finds them.
 */
final class AllocatorCore extends Resource {
  private final boolean isBorrowed;
  /** Of an allocator of pinned memory, the one that has lent it; else null. */
  private final AllocatorCore lender;
  /** The allocator of pinned memory that this one lends; null where there is none. */
  private AllocatorCore pinned;
  /** Pinned blocks of this package's making that are open. */
  private final AtomicLong pinnedBlocks = new AtomicLong();
  /** References for callbacks without a destroy function. */
  private final Memory.Keep kept;
  private volatile boolean isAbandoned;
  /** Tenants that were collected while they had live blocks. */
  private final Queue<Resource> orphans = new ConcurrentLinkedQueue<>();
  /** What was lent of its blocks. */
  private final Collection<Lent> views = new ConcurrentLinkedQueue<>();
  /** Guards what follows. */
  private final Object buffers = new Object();
  /** How many buffers somebody may have whose blocks are closed: their memory is not freed yet. */
  private int buffersLeft;
  /** The allocator, where it has been closed and ends with the last of these; else 0. */
  private long waiting;
  /** Whether blocks that are live then are freed, too. */
  private boolean isWaitingForAll;

  AllocatorCore(long address, Memory.Keep kept, boolean isBorrowed) {
    super("allocator", address);
    this.kept = kept;
    this.isBorrowed = isBorrowed;
    lender = null;
  }

  private AllocatorCore(long address, AllocatorCore lender) {
    super("allocator", address, lender);
    kept = null;
    isBorrowed = true;
    this.lender = lender;
  }

  /** That of the allocator of pinned memory, which is lent by this one; null where there is none. */
  AllocatorCore lendPinned() {
    long address = Native.pinnedAllocator(address());
    if (address != 0) {
      pinned = new AllocatorCore(address, this);
    }
    return pinned;
  }

  @Override
  void destroy(long address, Scratch scratch) {
    if (isBorrowed) {
      return;
    }
    synchronized (buffers) {
      int status = Native.allocatorDestroy(address, scratch.error);
      if (status == Constants.ERROR_INVALID_STATE && buffersLeft > 0 && pinnedBlocks.get() == 0
          && liveBlocks(address) == buffersLeft) {
        waiting = address;
        return;
      }
      scratch.check(status);
    }
  }

  void closeAll() {
    close(this::destroyAll);
  }

  /** Where a buffer is being used at this moment nothing is freed, but other buffers may have ended. */
  private void destroyAll(long address, Scratch scratch) {
    if (isBorrowed) {
      return;
    }
    List<HostView> lent = views.stream().map(Lent::open).filter(Objects::nonNull).toList();
    lent.forEach(HostView::end);
    synchronized (buffers) {
      lent.forEach(view -> leaveTo(view.left(), 0));
      if (buffersLeft > 0) {
        waiting = address;
        isWaitingForAll = true;
      } else {
        scratch.check(Native.allocatorDestroyAll(address, scratch.error));
      }
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

  /** Frees when the buffer has been collected; for a caller that has the allocator in use. Null: nothing. */
  void leaveTo(ByteBuffer buffer, long address) {
    if (buffer == null) {
      return;
    }
    synchronized (buffers) {
      Cleaners.register(buffer, () -> freeAfterBuffer(address));
      buffersLeft++;
    }
    Reference.reachabilityFence(buffer);
  }

  private void freeAfterBuffer(long address) {
    try (Scratch scratch = Scratch.enterIfOpen(this)) {
      synchronized (buffers) {
        Native.free(scratch == null ? waiting : scratch.handle, address, 0);
        buffersLeft--;
        if (scratch == null && buffersLeft == 0) {
          endWaiting();
        }
      }
    }
    endIfAbandoned();
  }

  private void endWaiting() {
    if (isWaitingForAll) {
      Native.allocatorDestroyAll(waiting, 0);
    } else {
      Native.allocatorDestroy(waiting, 0);
    }
    waiting = 0;
    keepNothing();
  }

  /** A buffer, and what was known of its block then; null for what no pool of this allocator has. */
  private record Lent(WeakReference<HostView> view, BlockInfo block) {
    /** null: it was collected. */
    HostView open() {
      return view.get();
    }

    boolean isOf(int device, PoolId pool) {
      return block != null && block.device() == device && block.pool().equals(pool);
    }
  }

  /** Remembers a buffer of one of its blocks. */
  void lent(HostView view, BlockInfo block) {
    views.removeIf(each -> each.open() == null);
    views.add(new Lent(new WeakReference<>(view), block));
  }

  /** Takes the memory of a pool away from its buffers, as far as Java can do that. */
  void endBuffers(int device, PoolId pool) {
    views.stream().filter(each -> each.isOf(device, pool)).map(Lent::open).filter(Objects::nonNull)
        .forEach(HostView::end);
  }

  @Override
  boolean takesLocks() {
    return true;
  }

  @Override
  void ended() {
    Flight.recorder().forget(this);
    synchronized (buffers) {
      if (waiting == 0) {
        keepNothing();
      }
    }
  }

  private void keepNothing() {
    if (kept != null) {
      kept.close();
    }
    endOrphans();
    if (pinned != null) {
      pinned.endOrphans();
    }
  }

  /** The cleaner's way: the last of its blocks tries again, so that is said first. */
  @Override
  public void run() {
    isAbandoned = true;
    super.run();
  }

  /** Frees for a caller that has the allocator in use. */
  void free(Scratch scratch, long address, boolean hasCurrent, long current) {
    int status;
    boolean isTold = Ambient.begin();
    try {
      status = hasCurrent ? Native.freeOnStream(scratch.handle, address, current, scratch.error)
          : Native.free(scratch.handle, address, scratch.error);
    } finally {
      Ambient.end(isTold);
    }
    scratch.check(status);
  }

  /**
   * Frees for the cleaner, where somebody has a buffer of the block after that; the last one ends an allocator that
   * nobody has any more.
   */
  void freeAbandoned(long address, ByteBuffer lent) {
    try (Scratch scratch = Scratch.enterIfOpen(this)) {
      if (scratch != null && lent != null) {
        leaveTo(lent, address);
      } else if (scratch != null) {
        Native.free(scratch.handle, address, scratch.error);
      }
    }
    endOrphans();
    endIfAbandoned();
  }

  /** For a caller that has ended a block. */
  void endIfAbandoned() {
    if (lender != null) {
      lender.endIfAbandoned();
    } else if (isAbandoned && !isClosed()) {
      run();
    }
  }

  // ---- Pinned blocks --------------------------------------------------------------------------------

  /** Counts one that was handed out. */
  void pinnedBlockBegins() {
    pinnedBlocks.incrementAndGet();
  }

  /** Frees for a caller that has the allocator in use. A block that cannot be freed is given up all the same. */
  void freePinned(Scratch scratch, long address) {
    pinnedBlocks.decrementAndGet();
    scratch.check(Ambient.call(() -> Native.pinnedFree(scratch.handle, address, scratch.error)));
  }

  /** {@link #freeAbandoned} for a pinned block. */
  void freePinnedAbandoned(long address) {
    try (Scratch scratch = Scratch.enterIfOpen(this)) {
      if (scratch != null) {
        pinnedBlocks.decrementAndGet();
        Native.pinnedFree(scratch.handle, address, scratch.error);
      }
    }
    if (pinned != null) {
      pinned.endOrphans();
    }
    endIfAbandoned();
  }

  void adoptOrphan(Resource tenant) {
    orphans.add(tenant);
    if (isClosed()) {
      endOrphans();
    }
  }

  /** Ends those of them whose last block has gone, since a tenant that nobody has may keep a guarantee. */
  void endOrphans() {
    for (Iterator<Resource> each = orphans.iterator(); each.hasNext(); ) {
      try {
        each.next().close();
        each.remove();
      } catch (RuntimeException refused) {
        continue;
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
      scratch.check(Ambient.call(() -> call.call(scratch.handle, scratch.error)));
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
      scratch.check(Ambient.call(() -> call.call(scratch.handle, scratch.out, scratch.error)));
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
        int status = row.ask(scratch.handle, i, scratch.sized(size), scratch.error);
        if (status == Constants.ERROR_INVALID_ARGUMENT) {
          break;  // There are fewer by now.
        }
        scratch.check(status);
        rows.add(row.read(scratch.memory(), Scratch.struct()));
      }
    }
    return List.copyOf(rows);
  }
}
