// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;

/** What a report is about. */
public final class ReportOptions {
  final Structs.ReportOptions values = new Structs.ReportOptions();

  /**
   * A device, and no request in particular.
   *
   * @param device the device
   */
  public ReportOptions(int device) {
    values.device = device;
  }

  /**
   * A request that may come, or has failed.
   *
   * @param size bytes
   * @param stream whose request it is: its pool is that to which requests of this stream and thread are routed
   * @return this
   */
  public ReportOptions request(long size, long stream) {
    values.size = Arguments.size(size, "size");
    values.stream = stream;
    return this;
  }
}
