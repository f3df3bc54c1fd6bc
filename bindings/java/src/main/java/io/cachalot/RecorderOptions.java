// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;
import java.io.OutputStream;
import java.nio.file.Path;
import java.util.Objects;

/** How a recording is made. */
public final class RecorderOptions {
  private final Structs.RecorderOptions values = new Structs.RecorderOptions();
  private OutputStream stream;

  private RecorderOptions() {}

  /**
   * Writes a file, for this user only.
   *
   * @param path {@code %p} stands for the number of the process. A file that exists is kept, and the new file gets a
   *     number behind its name (".2")
   * @return options to be changed
   */
  public static RecorderOptions toFile(Path path) {
    RecorderOptions options = new RecorderOptions();
    options.values.path = Arguments.text(Objects.requireNonNull(path, "path").toString(), "path");
    return options;
  }

  /**
   * Gives whole lines to a stream, up to 64 KiB at a time, on the thread that fills the buffer and under a lock: it
   * must not call the library, which answers with an exception. What it throws ends the recording, and goes to its
   * thread's handler of uncaught exceptions.
   *
   * @param stream is not closed
   * @return options to be changed
   */
  public static RecorderOptions toStream(OutputStream stream) {
    RecorderOptions options = new RecorderOptions();
    options.stream = Objects.requireNonNull(stream, "stream");
    return options;
  }

  /**
   * What the file may take. When half of that is used, it is kept beside as {@code PATH.before}, and a new one begins
   * with what is live.
   *
   * @param bytes at least 2 MiB; 0: any number
   * @return this
   */
  public RecorderOptions maxBytes(long bytes) {
    values.maxBytes = Arguments.size(bytes, "bytes");
    return this;
  }

  /**
   * What stands in the context of an event.
   *
   * @param contexts which; labels if this is not called
   * @return this
   */
  public RecorderOptions contexts(RecordedContexts contexts) {
    values.contexts = Objects.requireNonNull(contexts, "contexts").number();
    return this;
  }

  /**
   * The name of the recorded program, for the header of the trace.
   *
   * @param workload the text
   * @return this
   */
  public RecorderOptions workload(String workload) {
    values.workload = Arguments.text(workload, "workload");
    return this;
  }

  /** null: a file is written. */
  OutputStream stream() {
    return stream;
  }

  /** A struct of its own, since its callback is the recorder's for as long as that lives. */
  Structs.RecorderOptions toC() {
    Structs.RecorderOptions copy = new Structs.RecorderOptions();
    copy.path = values.path;
    copy.maxBytes = values.maxBytes;
    copy.contexts = values.contexts;
    copy.workload = values.workload;
    return copy;
  }
}
