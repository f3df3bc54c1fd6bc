// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import java.util.Set;

/** Kinds of calls of a simulated driver. */
public enum SimCall {
  /** Allocate. */
  ALLOCATE(Constants.SIM_CALL_ALLOCATE),
  /** Free. */
  FREE(Constants.SIM_CALL_FREE),
  /** Reserve. */
  RESERVE(Constants.SIM_CALL_RESERVE),
  /** Unreserve. */
  UNRESERVE(Constants.SIM_CALL_UNRESERVE),
  /** Create. */
  CREATE(Constants.SIM_CALL_CREATE),
  /** Release. */
  RELEASE(Constants.SIM_CALL_RELEASE),
  /** Map. */
  MAP(Constants.SIM_CALL_MAP),
  /** Unmap. */
  UNMAP(Constants.SIM_CALL_UNMAP),
  /** Set access. */
  SET_ACCESS(Constants.SIM_CALL_SET_ACCESS),
  /** Export. */
  EXPORT(Constants.SIM_CALL_EXPORT),
  /** Import. */
  IMPORT(Constants.SIM_CALL_IMPORT),
  /** Event create. */
  EVENT_CREATE(Constants.SIM_CALL_EVENT_CREATE),
  /** Event record. */
  EVENT_RECORD(Constants.SIM_CALL_EVENT_RECORD),
  /** Event query. */
  EVENT_QUERY(Constants.SIM_CALL_EVENT_QUERY),
  /** Event synchronize. */
  EVENT_SYNCHRONIZE(Constants.SIM_CALL_EVENT_SYNCHRONIZE),
  /** Of a stream or a device. */
  SYNCHRONIZE(Constants.SIM_CALL_SYNCHRONIZE),
  /** Capture info. */
  CAPTURE_INFO(Constants.SIM_CALL_CAPTURE_INFO),
  /** Enable peer. */
  ENABLE_PEER(Constants.SIM_CALL_ENABLE_PEER),
  /** Memory info. */
  MEMORY_INFO(Constants.SIM_CALL_MEMORY_INFO),
  /** Fabric state. */
  FABRIC_STATE(Constants.SIM_CALL_FABRIC_STATE),
  /** Pool allocate. */
  POOL_ALLOCATE(Constants.SIM_CALL_POOL_ALLOCATE),
  /** Pool free. */
  POOL_FREE(Constants.SIM_CALL_POOL_FREE),
  /** Pool trim. */
  POOL_TRIM(Constants.SIM_CALL_POOL_TRIM),
  /** Read or set, also of graph memory. */
  POOL_ATTRIBUTE(Constants.SIM_CALL_POOL_ATTRIBUTE),
  /** Pool set access. */
  POOL_SET_ACCESS(Constants.SIM_CALL_POOL_SET_ACCESS),
  /** Stream create. */
  STREAM_CREATE(Constants.SIM_CALL_STREAM_CREATE),
  /** For an event. */
  STREAM_WAIT(Constants.SIM_CALL_STREAM_WAIT),
  /** Obtain pinned memory. */
  HOST_ALLOCATE(Constants.SIM_CALL_HOST_ALLOCATE),
  /** Give pinned memory back. */
  HOST_FREE(Constants.SIM_CALL_HOST_FREE),
  /** Queue a copy. */
  COPY(Constants.SIM_CALL_COPY);

  private final int number;

  SimCall(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }

  static int bits(Set<SimCall> chosen) {
    return chosen.stream().mapToInt(SimCall::number).reduce(0, (a, b) -> a | b);
  }
}
