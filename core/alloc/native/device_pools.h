// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls on the private pools of one device that need no more than the device's locks [core 17].
#pragma once

#include <vector>

#include "alloc/native/device_state.h"

namespace cachalot {

// Every function locks what it needs. Throws what PrivatePools does.
class DevicePools : private DeviceOperation {
 public:
  explicit DevicePools(DeviceState& device) : DeviceOperation(device) {}

  // Creates the pool, or joins the one that there is [core 17.2].
  void create(PoolId id, PoolOptions options);
  // Marks of an id, which may be older than its pool [core 17.7, 17.8].
  void set_use_on_oom(PoolId id, bool use);
  void set_no_split(PoolId id);
  // Its memory stays, also once it is released.
  void set_pinned(PoolId id, bool is_pinned);
  // See Note [Whole blocks] (pools/whole_blocks.h).
  void set_whole_blocks(PoolId id);
  // How many callers have it [core 17.5].
  int use_count(PoolId id);
  // Whether the live blocks of the pool are exactly these [core 17.13].
  bool has_live(PoolId id, const std::vector<Address>& addresses);
};

}  // namespace cachalot
