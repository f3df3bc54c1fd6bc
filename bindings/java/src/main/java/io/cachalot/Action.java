// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Constants;
import io.cachalot.raw.Memory;
import io.cachalot.raw.Native;

/** What an entry of the history says. */
public enum Action {
  /** A block was handed out; the size is what was requested. */
  ALLOC(Constants.ACTION_ALLOC),
  /** The caller freed it. */
  FREE_REQUESTED(Constants.ACTION_FREE_REQUESTED),
  /** It can be reused. */
  FREE_COMPLETED(Constants.ACTION_FREE_COMPLETED),
  /** A segment was obtained. */
  SEGMENT_ALLOC(Constants.ACTION_SEGMENT_ALLOC),
  /** A segment is about to be given back. */
  SEGMENT_FREE(Constants.ACTION_SEGMENT_FREE),
  /** A range of an expandable segment was backed by memory. */
  SEGMENT_MAP(Constants.ACTION_SEGMENT_MAP),
  /** Its memory was given back. */
  SEGMENT_UNMAP(Constants.ACTION_SEGMENT_UNMAP),
  /** A snapshot was taken; the size is its active bytes. */
  SNAPSHOT(Constants.ACTION_SNAPSHOT),
  /** A request failed; the address is the device's free bytes. */
  OOM(Constants.ACTION_OOM),
  /** {@link Allocator#annotate} (since 2.14). */
  ANNOTATE(Constants.ACTION_ANNOTATE),
  /** In recordings of programs only, like the rest: a block that was live when the recording began. */
  LIVE_AT_BEGIN(Constants.ACTION_LIVE_AT_BEGIN),
  /** Memory outside of any cache was obtained. */
  OTHER_ALLOC(Constants.ACTION_OTHER_ALLOC),
  /** It was given back. */
  OTHER_FREE(Constants.ACTION_OTHER_FREE),
  /** A driver's call that gave memory back has ended. */
  CALL_END(Constants.ACTION_CALL_END),
  /** The device's primary context ended, and with it all its blocks. */
  CONTEXT_END(Constants.ACTION_CONTEXT_END),
  /** The program made a stream. */
  STREAM_CREATE(Constants.ACTION_STREAM_CREATE),
  /** It destroyed one. */
  STREAM_DESTROY(Constants.ACTION_STREAM_DESTROY),
  /** The program began to capture a stream. */
  CAPTURE_BEGIN(Constants.ACTION_CAPTURE_BEGIN),
  /** The capture ended. */
  CAPTURE_END(Constants.ACTION_CAPTURE_END),
  /** The program has waited for the work of a stream. */
  STREAM_WAIT(Constants.ACTION_STREAM_WAIT),
  /** It has waited for all work of the context. */
  CONTEXT_WAIT(Constants.ACTION_CONTEXT_WAIT),
  /** It gave a block to others by a handle. */
  EXPORT(Constants.ACTION_EXPORT),
  /** The recording ended as it should; the size is how many events were lost. */
  RECORDING_END(Constants.ACTION_RECORDING_END),
  /** An action that a newer library knows and this version does not. */
  UNKNOWN(-1);

  private final int number;

  Action(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }

  static Action of(int number) {
    for (Action each : values()) {
      if (each.number == number) {
        return each;
      }
    }
    return UNKNOWN;
  }

  /**
   * Its name in texts of the library.
   *
   * @return for example {@code segment_alloc}
   */
  public String text() {
    Library.load();
    return Memory.textOf(Native.actionName(number));
  }
}
