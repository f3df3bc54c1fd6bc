// SPDX-License-Identifier: MIT OR Apache-2.0
// The handle of a tenant.
#pragma once

#include <memory>

#include "alloc/tenants/tenants.h"
#include "cachalot/tenant.h"
#include "handle.h"

struct cachalot_tenant : cachalot::capi::Handle<cachalot::capi::HandleKind::kTenant> {
  std::shared_ptr<cachalot::Tenants> tenants;  // outlives the allocator where the handle does
  std::shared_ptr<cachalot::Tenant> core;
};
