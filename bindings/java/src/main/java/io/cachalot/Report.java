// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;
import io.cachalot.raw.Structs;
import java.util.ArrayList;
import java.util.List;

/**
 * Who holds the memory of a device, and what is in the way of a request. Every reserved byte is in one row: a live
 * block among the holders, and what is cached among the reasons. It keeps nothing alive and never changes.
 */
public final class Report implements AutoCloseable {
  private final Resource resource;

  private Report(long address) {
    resource = new Raw(address);
    Cleaners.register(this, resource);
  }

  private static final class Raw extends Resource {
    Raw(long address) {
      super("report", address);
    }

    @Override
    void destroy(long address, Scratch scratch) {
      Native.reportDestroy(address);
    }
  }

  static Report create(Allocator allocator, ReportOptions options) {
    try (Scratch scratch = Scratch.enter(allocator.core); Memory memory = new Memory()) {
      scratch.check(Native.reportCreate(scratch.handle, options.values.write(memory), scratch.out, scratch.error));
      return Cleaners.own(scratch.outLong(), Report::new, Native::reportDestroy);
    }
  }

  /**
   * The numbers.
   *
   * @return what the device has, and what the request comes to
   */
  public ReportNumbers numbers() {
    try (Scratch scratch = Scratch.enter(resource)) {
      Errors.row(Native.reportGetNumbers(scratch.handle, scratch.sized(Structs.ReportNumbers.SIZE)), 0);
      return ReportNumbers.of(Structs.ReportNumbers.read(scratch.memory(), Scratch.struct()));
    }
  }

  /**
   * Who holds memory.
   *
   * @return the rows, most bytes first
   */
  public List<ReportHolder> holders() {
    List<ReportHolder> rows = new ArrayList<>();
    try (Scratch scratch = Scratch.enter(resource)) {
      long count = Native.reportHolderCount(scratch.handle);
      for (long i = 0; i < count; i++) {
        Errors.row(Native.reportGetHolder(scratch.handle, i, scratch.sized(Structs.ReportHolder.SIZE)), i);
        rows.add(ReportHolder.of(Structs.ReportHolder.read(scratch.memory(), Scratch.struct())));
      }
    }
    return List.copyOf(rows);
  }

  /**
   * What is in the way.
   *
   * @return the rows, most bytes first
   */
  public List<ReportReason> reasons() {
    List<ReportReason> rows = new ArrayList<>();
    try (Scratch scratch = Scratch.enter(resource)) {
      long count = Native.reportReasonCount(scratch.handle);
      for (long i = 0; i < count; i++) {
        Errors.row(Native.reportGetReason(scratch.handle, i, scratch.sized(Structs.ReportReason.SIZE)), i);
        rows.add(ReportReason.of(Structs.ReportReason.read(scratch.memory(), Scratch.struct())));
      }
    }
    return List.copyOf(rows);
  }

  /**
   * For a request that fails: which options would have made room.
   *
   * @return the line of its error that says so, else ""
   */
  public String advice() {
    try (Scratch scratch = Scratch.enter(resource)) {
      return Memory.textOf(Native.reportAdvice(scratch.handle));
    }
  }

  /**
   * The report as a table of one screen, for logs.
   *
   * @return the text
   */
  public String text() {
    try (Scratch scratch = Scratch.enter(resource)) {
      return Texts.of(scratch, (buffer, capacity, length, error) ->
          Native.reportText(scratch.handle, buffer, capacity, length, error));
    }
  }

  /**
   * The report as one JSON object; {@code docs/serving.md} lists its keys.
   *
   * @return the text
   */
  public String json() {
    try (Scratch scratch = Scratch.enter(resource)) {
      return Texts.of(scratch, (buffer, capacity, length, error) ->
          Native.reportJson(scratch.handle, buffer, capacity, length, error));
    }
  }

  /** Ends the report. Again: nothing. */
  @Override
  public void close() {
    resource.close();
  }
}
