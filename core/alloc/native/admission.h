// SPDX-License-Identifier: MIT OR Apache-2.0
// What a tenant's request is granted (cachalot/tenant.h).
#pragma once

#include "alloc/heap/request.h"
#include "alloc/native/alloc_params.h"
#include "alloc/native/device_state.h"
#include "alloc/shards/device_lock.h"
#include "alloc/tenants/tenant_ledger.h"

namespace cachalot {

class Admission : private DeviceOperation {
 public:
  // The lock has the shard of the request, or the whole device.
  Admission(DeviceState& device, AllocParams& params, DeviceLock& lock)
      : DeviceOperation(device), params_(params), lock_(lock) {}

  // Books the bytes for the tenant of the request [tenant 1 to 3]. Other tenants are asked to free
  // where they are missing; the device is unlocked meanwhile. Throws where they stay missing.
  TenantBooking admit(const Request& request);

 private:
  [[noreturn]] void refuse(const TenantRefusal& refusal);

  AllocParams& params_;
  DeviceLock& lock_;
};

// The device counts what its tenants have from now on. pre: the whole device, which has no tenants yet.
void start_tenants(DeviceState& device);

}  // namespace cachalot
