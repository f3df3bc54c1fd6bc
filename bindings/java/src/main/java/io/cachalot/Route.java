// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Structs;
import java.util.Objects;
import java.util.function.LongPredicate;

/** Which requests go to a pool while it is routed to. */
public final class Route {
  private static final Route THIS_THREAD = new Route(Constants.ROUTE_THIS_THREAD, 0, null);
  private static final Route ALL = new Route(Constants.ROUTE_ALL, 0, null);
  private static final Route NONE = new Route(Constants.ROUTE_NONE, 0, null);

  private final int kind;
  private final long number;
  private final LongPredicate predicate;

  private Route(int kind, long number, LongPredicate predicate) {
    this.kind = kind;
    this.number = number;
    this.predicate = predicate;
  }

  /**
   * Requests of the thread that begins the routing; none once it has ended. It cannot be a virtual thread: the
   * library knows only its carrier.
   *
   * @return the route
   */
  public static Route thisThread() {
    return THIS_THREAD;
  }

  /**
   * Requests of every thread and stream.
   *
   * @return the route
   */
  public static Route all() {
    return ALL;
  }

  /**
   * No requests.
   *
   * @return the route
   */
  public static Route none() {
    return NONE;
  }

  /**
   * Requests for one stream.
   *
   * @param stream the stream
   * @return the route
   */
  public static Route stream(long stream) {
    return new Route(Constants.ROUTE_STREAM, stream, null);
  }

  /**
   * Requests for streams that are captured under one id.
   *
   * @param captureId the id
   * @return the route
   */
  public static Route capture(long captureId) {
    return new Route(Constants.ROUTE_CAPTURE, captureId, null);
  }

  /**
   * Requests for streams that a function accepts. It runs under a lock and must not call the library.
   *
   * @param predicate gets the stream
   * @return the route
   */
  public static Route predicate(LongPredicate predicate) {
    return new Route(Constants.ROUTE_PREDICATE, 0, Objects.requireNonNull(predicate, "predicate"));
  }

  void refuseOnVirtualThread() {
    if (kind == Constants.ROUTE_THIS_THREAD && Ambient.isNeeded()) {
      throw new IllegalStateException("requests of a virtual thread cannot be told apart; route by stream");
    }
  }

  Structs.PoolRoute toC() {
    refuseOnVirtualThread();
    Structs.PoolRoute route = new Structs.PoolRoute();
    route.kind = kind;
    route.stream = kind == Constants.ROUTE_STREAM ? number : 0;
    route.captureId = kind == Constants.ROUTE_CAPTURE ? number : 0;
    if (predicate != null) {
      LongPredicate own = predicate;
      route.predicate = stream -> Scratch.underLock(() -> own.test(stream)) ? 1 : 0;
    }
    return route;
  }
}
