// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Objects;
import java.util.Set;

/**
 * A simulated device, which keeps accounts and holds no memory. Everything that time or chance decides on a real one
 * is in the caller's hand: addresses, when work on a stream is done, captures, errors. Its addresses cannot be
 * dereferenced.
 */
public final class Sim extends Driver {
  private Sim(long address) {
    super(address);
  }

  /**
   * One device.
   *
   * @param capacity its bytes, at most 4 TiB; 0: 80 GiB
   * @return the driver; close it
   */
  public static Sim create(long capacity) {
    return create(capacity, 1);
  }

  /**
   * Several devices.
   *
   * @param capacity bytes of each, at most 4 TiB; 0: 80 GiB
   * @param devices how many; 0: 1
   * @return the driver; close it
   */
  public static Sim create(long capacity, int devices) {
    Structs.SimOptions options = new Structs.SimOptions();
    options.capacity = Arguments.size(capacity, "capacity");
    options.deviceCount = Arguments.count(devices, "devices");
    try (Scratch scratch = Scratch.enter(); Memory memory = new Memory()) {
      scratch.check(Native.simCreate(options.write(memory), scratch.out, scratch.error));
      return Cleaners.own(scratch.outLong(), Sim::new, Native::driverDestroy);
    }
  }

  /** A function of the driver. */
  @FunctionalInterface
  private interface Call {
    int call(long driver, long error);
  }

  private void call(Call call) {
    try (Scratch scratch = Scratch.enter(resource)) {
      scratch.check(call.call(scratch.handle, scratch.error));
    }
  }

  /**
   * Gives the addresses of the next segments and reservations of a device, in this order; after them the driver
   * chooses again. They are not checked against ranges in use.
   *
   * @param device the device
   * @param addresses in addition to those given before
   */
  public void giveAddresses(int device, long... addresses) {
    Objects.requireNonNull(addresses, "addresses");
    try (Memory memory = new Memory()) {
      ByteBuffer list = memory.allocate(Long.BYTES * addresses.length);
      list.asLongBuffer().put(addresses);
      call((driver, error) ->
          Native.simGiveAddresses(driver, device, Memory.addressOf(list), addresses.length, error));
    }
  }

  /**
   * Queues a piece of work, which stays unfinished; events recorded from now on wait for it.
   *
   * @param device the device
   * @param stream the stream
   */
  public void queueWork(int device, long stream) {
    call((driver, error) -> Native.simQueueWork(driver, device, stream, error));
  }

  /**
   * Finishes the oldest unfinished piece of work of a stream.
   *
   * @param device the device
   * @param stream the stream
   */
  public void finishOldest(int device, long stream) {
    call((driver, error) -> Native.simFinishOldest(driver, device, stream, error));
  }

  /**
   * Finishes all work of a stream.
   *
   * @param device the device
   * @param stream the stream
   */
  public void finishStream(int device, long stream) {
    call((driver, error) -> Native.simFinishStream(driver, device, stream, error));
  }

  /**
   * Finishes all work of a device.
   *
   * @param device the device
   */
  public void finishDevice(int device) {
    call((driver, error) -> Native.simFinishDevice(driver, device, error));
  }

  /**
   * Lets driver calls fail as out of memory.
   *
   * @param calls the calls that are counted
   * @param after so many of them work first
   * @param count so many fail then; 0: one
   */
  public void failOutOfMemory(Set<SimCall> calls, long after, long count) {
    fail(calls, io.cachalot.raw.Constants.DRIVER_OUT_OF_MEMORY, after, count);
  }

  /**
   * Lets driver calls fail. Failures of other kinds or codes that were ordered before stay.
   *
   * @param calls the calls that are counted
   * @param code what they give
   * @param after so many of them work first
   * @param count so many fail then; 0: one
   */
  public void fail(Set<SimCall> calls, int code, long after, long count) {
    Structs.SimFailure failure = new Structs.SimFailure();
    failure.calls = SimCall.bits(Objects.requireNonNull(calls, "calls"));
    failure.code = code;
    failure.after = Arguments.size(after, "after");
    failure.count = Arguments.size(count, "count");
    try (Memory memory = new Memory()) {
      long address = failure.write(memory);
      call((driver, error) -> Native.simFail(driver, address, error));
    }
  }

  /**
   * Leaves an error pending, as earlier work of the thread would.
   *
   * @param code the error; 0 clears it
   */
  public void setPendingError(int code) {
    call((driver, error) -> Native.simSetPendingError(driver, code, error));
  }

  /**
   * From now on each call of these kinds takes so long.
   *
   * @param calls the kinds
   * @param latency how long; zero ends it
   */
  public void setLatency(Set<SimCall> calls, Duration latency) {
    int bits = SimCall.bits(Objects.requireNonNull(calls, "calls"));
    long nanos = Arguments.nanos(latency, "latency");
    call((driver, error) -> Native.simSetLatency(driver, bits, nanos, error));
  }

  /**
   * Adds a process to those that use the device.
   *
   * @param device the device
   * @param pid its number; 0: this process
   * @param used bytes that it uses
   */
  public void addProcess(int device, long pid, long used) {
    Arguments.size(used, "used");
    call((driver, error) -> Native.simAddProcess(driver, device, pid, used, error));
  }

  /**
   * What the device says of fabric handles.
   *
   * @param device the device
   * @param state 1: it is part of a fabric; 0: it is not; negative: the question fails
   * @param createCode what creating memory with a fabric handle gives; 0 works
   */
  public void setFabric(int device, int state, int createCode) {
    call((driver, error) -> Native.simSetFabric(driver, device, state, createCode, error));
  }

  /**
   * A stream is captured from now on.
   *
   * @param device the device
   * @param stream the stream
   * @param captureId names the capture; not 0
   */
  public void beginCapture(int device, long stream, long captureId) {
    call((driver, error) -> Native.simBeginCapture(driver, device, stream, captureId, error));
  }

  /**
   * A capture ends, for every stream in it.
   *
   * @param device the device
   * @param captureId the capture
   */
  public void endCapture(int device, long captureId) {
    call((driver, error) -> Native.simEndCapture(driver, device, captureId, error));
  }

  /**
   * Adds a graph node behind the stream's end nodes.
   *
   * @param device the device
   * @param stream the stream
   */
  public void addNode(int device, long stream) {
    call((driver, error) -> Native.simAddNode(driver, device, stream, error));
  }

  /**
   * A stream joins the capture of another, behind its present end nodes.
   *
   * @param device the device
   * @param from the captured stream
   * @param to the one that joins
   */
  public void forkCapture(int device, long from, long to) {
    call((driver, error) -> Native.simForkCapture(driver, device, from, to, error));
  }

  /**
   * A stream waits for another: it gets the end nodes of both.
   *
   * @param device the device
   * @param into the one that waits
   * @param other the other
   */
  public void joinCapture(int device, long into, long other) {
    call((driver, error) -> Native.simJoinCapture(driver, device, into, other, error));
  }

  /**
   * What the device says of the memory of captured graphs, in bytes.
   *
   * @param device the device
   * @param used in use
   * @param reserved reserved
   */
  public void setGraphMemory(int device, long used, long reserved) {
    Arguments.size(used, "used");
    Arguments.size(reserved, "reserved");
    call((driver, error) -> Native.simSetGraphMemory(driver, device, used, reserved, error));
  }

  /**
   * Starts or stops keeping the driver's calls as text.
   *
   * @param words what is kept; none: nothing
   */
  public void logCalls(Set<SimLog> words) {
    int bits = SimLog.bits(Objects.requireNonNull(words, "words"));
    call((driver, error) -> Native.simLogCalls(driver, bits, error));
  }

  /**
   * Takes the calls that were kept since the last time, oldest first, one a line, each ended by a line feed.
   *
   * @return the lines
   */
  public String readCalls() {
    try (Scratch scratch = Scratch.enter(resource)) {
      scratch.check(Native.simReadCalls(scratch.handle, 0, 0, scratch.out, scratch.error));
      long length = scratch.outLong();
      if (length == 0) {
        return "";
      }
      try (Memory memory = new Memory()) {
        ByteBuffer text = memory.allocate(Math.toIntExact(length + 1));
        scratch.check(Native.simReadCalls(scratch.handle, Memory.addressOf(text), length + 1, scratch.out,
            scratch.error));
        return StandardCharsets.UTF_8.decode(text.slice(0, (int) length)).toString();
      }
    }
  }
}
