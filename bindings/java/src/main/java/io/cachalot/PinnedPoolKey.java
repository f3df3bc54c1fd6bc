// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import java.util.Objects;

/**
 * A pool of pinned memory by its id, as a graph has one. Its methods are the functions of the library, one by one,
 * and the balance of beginning, ending and releasing is the caller's; {@link Allocator#routePinned} keeps it by
 * itself. All of them are unsupported where pinned memory is cached as a device's ({@link
 * AllocatorBuilder#pinnedConfig(String)}).
 *
 * <p>Each beginning of a routing gives the pool a user, and releasing takes one away. Without users its cached
 * blocks go with the next {@link Allocator#emptyPinnedCache}.
 */
public final class PinnedPoolKey {
  private final Allocator allocator;
  private final PoolId id;

  PinnedPoolKey(Allocator allocator, PoolId id) {
    this.allocator = allocator;
    this.id = id;
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
   * Its name.
   *
   * @return the id
   */
  public PoolId id() {
    return id;
  }

  /**
   * Routes requests of pinned memory to the pool from now on; of several routings that take a request the oldest
   * has it. A block of the pool that streams use is not handed out again once it is freed, because the graph may
   * use it at each launch.
   *
   * @param device the one that {@link Route#capture} asks
   * @param route which requests
   * @throws IllegalStateException if the pool is being routed to already (it has one user more by then), or was
   *     released
   */
  public void begin(int device, Route route) {
    begin(device, route, false);
  }

  /** The same, without a user more where it is refused. */
  void beginOrLeave(int device, Route route) {
    begin(device, route, true);
  }

  private void begin(int device, Route route, boolean leaves) {
    Objects.requireNonNull(route, "route");
    try (Memory memory = new Memory(); Scratch scratch = Scratch.enter(allocator.core)) {
      long written = route.toC().write(memory);
      int status = Ambient.call(() ->
          Native.pinnedPoolBegin(scratch.handle, device, id.first(), id.second(), written, scratch.error));
      if (leaves && status == Constants.ERROR_INVALID_STATE) {
        // One that is released has no user to lose.
        Native.pinnedPoolRelease(scratch.handle, id.first(), id.second(), 0);
      }
      scratch.check(status);
    }
  }

  /**
   * Ends the routing. The users stay.
   *
   * @throws IllegalStateException where there is no routing
   */
  public void end() {
    allocator.core.call((owner, error) -> Native.pinnedPoolEnd(owner, id.first(), id.second(), error));
  }

  /**
   * Takes a user away.
   *
   * @throws IllegalStateException where there is none
   * @throws IllegalArgumentException for an unknown pool
   */
  public void release() {
    allocator.core.call((owner, error) -> Native.pinnedPoolRelease(owner, id.first(), id.second(), error));
  }

  /** The id. */
  @Override
  public String toString() {
    return "pool (" + id.first() + ", " + id.second() + ") of pinned memory";
  }
}
