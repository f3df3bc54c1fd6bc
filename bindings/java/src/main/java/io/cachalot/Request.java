// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/** What a request may say beyond size, device and stream. */
public final class Request {
  private final long size;
  private int device;
  private long stream;
  private long currentStream;
  private boolean hasCurrentStream;
  private long at;

  /**
   * A request on device 0, for the default stream.
   *
   * @param size bytes
   * @throws IllegalArgumentException for a negative number
   */
  public Request(long size) {
    this.size = Arguments.size(size, "size");
  }

  /**
   * The device.
   *
   * @param device counted from 0
   * @return this
   */
  public Request device(int device) {
    this.device = device;
    return this;
  }

  /**
   * The stream that will use the block.
   *
   * @param stream the stream
   * @return this
   */
  public Request stream(long stream) {
    this.stream = stream;
    return this;
  }

  /**
   * The stream that PyTorch would call the thread's current one; else that of the request.
   *
   * @param stream the stream
   * @return this
   */
  public Request currentStream(long stream) {
    currentStream = stream;
    hasCurrentStream = true;
    return this;
  }

  /**
   * The block shall begin at this address (since 2.13).
   *
   * @param address a multiple of 512 inside of cached memory; 0: anywhere
   * @return this
   */
  public Request at(long address) {
    at = address;
    return this;
  }

  /** Writes all of it. */
  void put(Scratch scratch) {
    Structs.Request request = new Structs.Request();
    request.size = size;
    request.device = device;
    request.stream = stream;
    request.currentStream = currentStream;
    request.hasCurrentStream = hasCurrentStream ? 1 : 0;
    request.at = at;
    request.put(scratch.memory(), Scratch.struct(), null);
  }
}
