// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;

/**
 * A label on the calling thread: what it allocates until the label is closed counts for that label, in every
 * allocator. Labels nest: {@code model-a/kv-cache}.
 *
 * <pre>{@code
 * try (Label label = Label.push("kv-cache")) {
 *   block = allocator.allocate(size, device, stream);
 * }
 * }</pre>
 */
public final class Label implements AutoCloseable {
  private static final ThreadLocal<int[]> DEPTH = ThreadLocal.withInitial(() -> new int[1]);

  private final Thread thread = Thread.currentThread();
  private final boolean isAmbient = Ambient.isNeeded();
  private final int depth;
  private boolean isClosed;

  private Label(String text) {
    if (isAmbient) {
      depth = Ambient.push(new Ambient.Text(text));
      return;
    }
    try (Scratch scratch = Scratch.enter(); Memory memory = new Memory()) {
      scratch.check(Native.labelPush(Texts.toC(memory, text), scratch.error));
    }
    depth = ++DEPTH.get()[0];
  }

  /**
   * Puts a label on the calling thread.
   *
   * @param text the label, not empty
   * @return close it, on the same thread
   */
  public static Label push(String text) {
    if (Arguments.text(text, "text").isEmpty()) {
      throw new IllegalArgumentException("a label has a text");
    }
    return new Label(text);
  }

  /**
   * Takes the label away. Again: nothing.
   *
   * @throws IllegalStateException on another thread, or if it is not the thread's last label
   */
  @Override
  public void close() {
    if (isClosed) {
      return;
    }
    if (Thread.currentThread() != thread) {
      throw new IllegalStateException("a label is closed by the thread that pushed it");
    }
    if (isAmbient) {
      Ambient.pop(depth, "the label");
    } else {
      if (DEPTH.get()[0] != depth) {
        throw new IllegalStateException("the label is not the one that this thread pushed last");
      }
      try (Scratch scratch = Scratch.enter()) {
        scratch.check(Native.labelPop(scratch.error));
      }
      DEPTH.get()[0]--;
    }
    isClosed = true;
  }
}
