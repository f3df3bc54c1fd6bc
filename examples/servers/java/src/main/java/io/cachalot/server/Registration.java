// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.server;

import io.cachalot.Allocator;
import java.nio.charset.StandardCharsets;

/** libcachalot_onnxruntime.so: an allocator that is ONNX Runtime's, until {@code close}. */
final class Registration implements AutoCloseable {
  static {
    // It needs libcachalot.so by its name, and gets the one that the binding has loaded.
    System.loadLibrary("cachalot_server");
  }

  private final long handle;

  /** What ONNX Runtime has asked for so far. */
  record Info(String version, long liveBlocks, long requests, long reserves, long failures) {}

  /** With the ONNX Runtime that the process has loaded. The allocator has to live until it is closed. */
  Registration(Allocator allocator) {
    handle = register(allocator.handle());
  }

  Info info() {
    long[] counts = new long[4];
    String version = info(handle, counts);
    return new Info(version, counts[0], counts[1], counts[2], counts[3]);
  }

  /** Takes the allocator back; an {@code IllegalStateException} if ONNX Runtime still has memory of it. */
  @Override
  public void close() {
    unregister(handle);
  }

  /** What failed on this thread since {@link #forgetFailure}; null: nothing. */
  static ExhaustedException lastFailure() {
    byte[][] texts = failure();
    return texts == null ? null : new ExhaustedException(
        new String(texts[0], StandardCharsets.UTF_8), new String(texts[1], StandardCharsets.UTF_8));
  }

  /** Forgets what failed on this thread. */
  static native void forgetFailure();

  private static native long register(long allocator);

  private static native void unregister(long handle);

  /** The version; live blocks, requests, reserves and failures go into the array. */
  private static native String info(long handle, long[] counts);

  /** Message and report. */
  private static native byte[][] failure();
}
