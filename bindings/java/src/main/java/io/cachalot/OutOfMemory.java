// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import io.cachalot.raw.Structs;
import java.io.Serializable;

/**
 * What a request that failed looked like.
 *
 * @param device the device asked for
 * @param stream the stream asked for
 * @param requested bytes that were asked for
 * @param segmentSize bytes that would have been asked from the driver
 * @param deviceFree bytes free on the device, as the driver says
 * @param deviceTotal bytes that the device has
 * @param limit the memory limit in force in bytes; 0 if there is none
 * @param allocated bytes handed out
 * @param reserved bytes obtained from the driver
 * @param privatePoolsFree bytes cached in private pools
 * @param largestFreeBlock bytes of the largest cached block of any pool and stream
 * @serial exclude
 */
public record OutOfMemory(
    int device, long stream, long requested, long segmentSize, long deviceFree, long deviceTotal, long limit, long
    allocated, long reserved, long privatePoolsFree, long largestFreeBlock) implements Serializable {
  static OutOfMemory of(Structs.Error from) {
    return new OutOfMemory(
        from.device, from.stream, from.requested, from.segmentSize, from.deviceFree, from.deviceTotal, from.limit,
        from.allocated, from.reserved, from.privatePoolsFree, from.largestFreeBlock);
  }

  static OutOfMemory of(Structs.OutOfMemory from) {
    return new OutOfMemory(
        from.device, from.stream, from.requested, from.segmentSize, from.deviceFree, from.deviceTotal, from.limit,
        from.allocated, from.reserved, from.privatePoolsFree, from.largestFreeBlock);
  }
}
