// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;
import java.util.Optional;

/**
 * What a trace says of itself; "" and 0 where it says nothing.
 *
 * @param workload what was run
 * @param torch the version that recorded it, for example {@code 2.11.0+cu130}
 * @param config its option string
 * @param deviceTotal bytes of the device
 * @param eventCount how many events there are
 * @param statCount statistics that were recorded at the end
 * @param release the release that fits {@code torch}
 * @param deviceCount how many devices there are
 * @param recorder the program that wrote the file
 * @param format the trace format, 1 or 2; only format 2 has the rest
 * @param driverVersion the version of CUDA, 13000 for 13.0
 * @param command the program that was recorded, with its arguments
 * @param processId its process
 * @param parentProcessId the process that it was forked from
 * @param startMicros when the recording began, microseconds since 1970
 */
public record TraceInfo(
    String workload, String torch, String config, long deviceTotal, long eventCount, long statCount, Optional<Release>
    release, int deviceCount, String recorder, int format, int driverVersion, String command, long processId,
    long parentProcessId, long startMicros) {
  static TraceInfo of(Structs.TraceInfo from) {
    return new TraceInfo(
        from.workload, from.torch, from.config, from.deviceTotal, from.eventCount, from.statCount,
        Release.find(from.release), from.deviceCount, from.recorder, from.format, from.driverVersion, from.command,
        from.processId, from.parentProcessId, from.startUs);
  }
}
