// SPDX-License-Identifier: MIT OR Apache-2.0
// Tenants.
#include "cachalot/tenant.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "alloc/tenants/tenant_scope.h"
#include "alloc/tenants/tenants.h"
#include "base/assert.h"
#include "callback.h"
#include "core_of.h"
#include "tenant_handle.h"
#include "values.h"

namespace cachalot::capi {
namespace {

static_assert(static_cast<int32_t>(PressureReason::kLimit) == CACHALOT_PRESSURE_LIMIT);
static_assert(static_cast<int32_t>(PressureReason::kGuarantee) == CACHALOT_PRESSURE_GUARANTEE);
static_assert(static_cast<int32_t>(PressureReason::kDevice) == CACHALOT_PRESSURE_DEVICE);
static_assert(Tenants::kAllDevices == CACHALOT_ALL_DEVICES);

uint64_t read_limit(uint64_t bytes) { return bytes == 0 ? kUnlimited : bytes; }

std::string read_name(const char* name) {
  std::string text = name != nullptr ? name : "";
  if (text.size() >= CACHALOT_TENANT_NAME_CAPACITY)
    throw_invalid_argument(format("name has %zu bytes: at most %d are kept", text.size(),
                                  CACHALOT_TENANT_NAME_CAPACITY - 1));
  return text;
}

cachalot_pressure write_pressure(const Pressure& pressure) {
  return {.struct_size = sizeof(cachalot_pressure),
          .reason = static_cast<int32_t>(pressure.reason),
          .device = pressure.device,
          .missing_bytes = pressure.missing,
          .allocated_bytes = pressure.allocated,
          .guaranteed_bytes = pressure.guaranteed,
          .requester = pressure.requester,
          .requester_name = pressure.requester_name.c_str(),
          .requester_priority = pressure.requester_priority,
          .is_guaranteed = pressure.is_request_guaranteed};
}

// `data` has become ours before anything can fail.
TenantOptions read_tenant_options(const cachalot_tenant_options& in, std::shared_ptr<void> data) {
  TenantOptions options;
  options.name = read_name(in.name);
  options.terms = {in.guaranteed_bytes, read_limit(in.limit_bytes), in.priority};
  if (in.pressure != nullptr) {
    options.pressure = [ask = in.pressure, data = std::move(data)](const Pressure& pressure) {
      const cachalot_pressure out = write_pressure(pressure);
      return call_caller([&] { return ask(data.get(), &out); });
    };
  }
  return options;
}

cachalot_tenant_stats write_tenant_stats(const TenantRow& tenant, int32_t device) {
  const TenantTerms& terms = tenant.terms;
  const TenantUse& use = tenant.use;
  cachalot_tenant_stats out = {.struct_size = sizeof out,
                               .id = tenant.id,
                               .device = device,
                               .priority = terms.priority,
                               .guaranteed_bytes = terms.guaranteed,
                               .limit_bytes = terms.limit == kUnlimited ? 0 : terms.limit,
                               .allocation = write_stat(use.allocation),
                               .allocated_bytes = write_stat(use.allocated_bytes),
                               .requested_bytes = write_stat(use.requested_bytes),
                               .num_ooms = use.num_ooms,
                               .num_pressure_calls = use.num_pressure_calls,
                               .pressure_freed_bytes = use.pressure_freed_bytes};
  CACHALOT_ASSERT(1, tenant.name.size() < sizeof out.name);
  out.asleep_bytes = use.asleep_bytes;
  std::memcpy(out.name, tenant.name.c_str(), tenant.name.size() + 1);
  return out;
}

}  // namespace
}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_tenant_create(cachalot_allocator* allocator,
                                       const cachalot_tenant_options* options,
                                       cachalot_tenant** out_tenant, cachalot_error* error) {
  return guard(error, [&] {
    const cachalot_tenant_options in = read_options(options);
    std::shared_ptr<void> data = own(in.pressure_user_data, in.pressure_destroy);
    Allocator& core = core_of(allocator);
    cachalot_tenant*& out = require(out_tenant, "out_tenant");
    auto handle = std::make_unique<cachalot_tenant>();
    handle->tenants = core.tenants();
    handle->core = core.tenant_create(read_tenant_options(in, std::move(data)));
    out = handle.release();
  });
}

cachalot_status cachalot_tenant_destroy(cachalot_tenant* tenant, cachalot_error* error) {
  return guard(error, [&] {
    if (tenant == nullptr) return;
    const cachalot_tenant& handle = require(tenant, "tenant");
    handle.tenants->destroy(*handle.core);
    delete tenant;
  });
}

cachalot_status cachalot_allocate_for(cachalot_allocator* allocator, cachalot_tenant* tenant,
                                      uint64_t size, int32_t device, cachalot_stream stream,
                                      cachalot_address* out_address, cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    const Tenant& owner = *require(tenant, "tenant").core;
    cachalot_address& out = require(out_address, "out_address");
    out = core.allocate_for(owner, size, device, stream);
  });
}

cachalot_status cachalot_tenant_begin(cachalot_tenant* tenant, cachalot_error* error) {
  return guard(error, [&] { begin_tenant(require(tenant, "tenant").core); });
}

cachalot_status cachalot_tenant_end(cachalot_tenant* tenant, cachalot_error* error) {
  return guard(error, [&] {
    const Tenant& core = *require(tenant, "tenant").core;
    if (!end_tenant(core))
      throw_invalid_state("tenant '" + core.name + "' is not the one that this thread began last");
  });
}

cachalot_status cachalot_tenant_set_bytes(cachalot_tenant* tenant, int32_t device,
                                          uint64_t guaranteed_bytes, uint64_t limit_bytes,
                                          cachalot_error* error) {
  return guard(error, [&] {
    const cachalot_tenant& handle = require(tenant, "tenant");
    handle.tenants->set_bytes(*handle.core, device, guaranteed_bytes, read_limit(limit_bytes));
  });
}

cachalot_status cachalot_tenant_set_priority(cachalot_tenant* tenant, int32_t priority,
                                             cachalot_error* error) {
  return guard(error, [&] {
    const cachalot_tenant& handle = require(tenant, "tenant");
    handle.tenants->set_priority(*handle.core, priority);
  });
}

cachalot_status cachalot_get_tenant_stats(cachalot_tenant* tenant, int32_t device,
                                          cachalot_tenant_stats* out_stats, cachalot_error* error) {
  return guard(error, [&] {
    const cachalot_tenant& handle = require(tenant, "tenant");
    const TenantRow row = handle.tenants->row(*handle.core, device);
    write_struct(out_stats, write_tenant_stats(row, device), "out_stats");
  });
}

cachalot_status cachalot_tenant_count(cachalot_allocator* allocator, size_t* out_count,
                                      cachalot_error* error) {
  return guard(error, [&] {
    Allocator& core = core_of(allocator);
    require(out_count, "out_count") = core.tenants()->count();
  });
}

cachalot_status cachalot_tenant_stats_at(cachalot_allocator* allocator, int32_t device,
                                         size_t index, cachalot_tenant_stats* out_stats,
                                         cachalot_error* error) {
  return guard(error, [&] {
    const TenantRow row = core_of(allocator).tenants()->row_at(index, device);
    write_struct(out_stats, write_tenant_stats(row, device), "out_stats");
  });
}
