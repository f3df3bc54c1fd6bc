// SPDX-License-Identifier: MIT OR Apache-2.0
// Snapshots of one device [core 22.5]: see Note [Copying blocks].
#pragma once

#include <deque>

#include "alloc/heap/segment_copy.h"
#include "alloc/native/device_state.h"
#include "alloc/trace/snapshot.h"

namespace cachalot {

// pre of all functions: the device's lock. Other calls go on at the shards meanwhile.
class SnapshotTaker : private DeviceOperation {
 public:
  explicit SnapshotTaker(DeviceState& device) : DeviceOperation(device) {}

  // Adds the segments of a pool; the default one stands for all. Throws std::bad_alloc.
  void add_to(Snapshot* snapshot, PoolId pool);
  // Without an entry of the history.
  void add_rows_to(Snapshot* snapshot, PoolId pool);

 private:
  // pre: no segment leads to a copy.
  void copy_segments(std::deque<SegmentCopy>& copies);
  void add_rows(Snapshot* snapshot, const SegmentCopy& copy, bool only_from_head) const;
};

}  // namespace cachalot
