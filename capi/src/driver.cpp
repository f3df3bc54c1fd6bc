// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions of driver.h.
#include "cachalot/driver.h"

#include <cstdlib>
#include <memory>

#include "custom_driver.h"
#include "device/cuda_driver.h"
#include "device/driver_name.h"
#include "device/host_driver.h"
#include "device/sim_driver.h"
#include "guard.h"
#include "handles.h"

namespace cachalot::capi {
namespace {

static_assert(kSuccess == CACHALOT_DRIVER_SUCCESS && kNotReady == CACHALOT_DRIVER_NOT_READY);
static_assert(kInvalidValue == CACHALOT_DRIVER_INVALID_VALUE);
static_assert(kDriverOutOfMemory == CACHALOT_DRIVER_OUT_OF_MEMORY);
static_assert(kDriverNotSupported == CACHALOT_DRIVER_NOT_SUPPORTED);

bool is_empty(const char* text) { return text == nullptr || *text == '\0'; }

std::shared_ptr<Driver> make_host(uint64_t capacity, int32_t device_count, bool is_shared = false) {
  HostOptions options;
  options.is_shared = is_shared;
  if (capacity != 0) options.capacity = capacity;
  if (device_count != 0) options.device_count = device_count;
  return std::make_shared<HostDriver>(options);
}

std::shared_ptr<Driver> make_sim(uint64_t capacity) {
  SimOptions options;
  if (capacity != 0) options.capacity = capacity;
  return std::make_shared<SimDriver>(options);
}

std::shared_ptr<Driver> make_driver(const DriverName& name) {
  switch (name.kind) {
    case DriverKind::kHost:
      return make_host(name.capacity, 1);
    case DriverKind::kHostShared:
      return make_host(name.capacity, 1, true);
    case DriverKind::kSim:
      return make_sim(name.capacity);
    case DriverKind::kCuda:
      break;
  }
  CudaOptions options;
  options.capacity = name.capacity;
  if (name.has_group_limits) options.cgroups.emplace();
  return std::make_shared<CudaDriver>(options);
}

// Where nobody named one: the GPUs if there are any.
std::shared_ptr<Driver> make_default_driver() {
  try {
    return std::make_shared<CudaDriver>();
  } catch (const Error& error) {
    if (error.status() != Status::kDriverUnavailable) throw;
    return make_host(0, 1);
  }
}

}  // namespace

DriverReference open_driver(const char* name) {
  if (is_empty(name)) name = secure_getenv("CACHALOT_DRIVER");
  return new_driver(is_empty(name) ? make_default_driver() : make_driver(parse_driver_name(name)));
}

}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_driver_open(const char* name, cachalot_driver** out_driver,
                                     cachalot_error* error) {
  return guard(error, [&] {
    require(out_driver, "out_driver");
    *out_driver = give_to_caller(open_driver(name));
  });
}

cachalot_status cachalot_driver_create_host(uint64_t capacity, int32_t device_count,
                                            cachalot_driver** out_driver, cachalot_error* error) {
  return guard(error, [&] {
    require(out_driver, "out_driver");
    *out_driver = give_to_caller(new_driver(make_host(capacity, device_count)));
  });
}

cachalot_status cachalot_driver_create_custom(const cachalot_device_ops* ops, int32_t device_count,
                                              void* user_data, void (*destroy)(void* user_data),
                                              cachalot_driver** out_driver, cachalot_error* error) {
  return guard(error, [&] {
    UserData owned(user_data, destroy);
    require(out_driver, "out_driver");
    const auto copy = read_options(&require(ops, "ops"), "ops");
    *out_driver = give_to_caller(
        new_driver(std::make_shared<CustomDriver>(copy, device_count, std::move(owned))));
  });
}

void cachalot_driver_destroy(cachalot_driver* driver) {
  if (live_or_null(driver)) take_from_caller(*driver);
}

const char* cachalot_driver_name(const cachalot_driver* driver) {
  return live_or_null(driver) ? driver->core->name() : "";
}

int32_t cachalot_driver_device_count(const cachalot_driver* driver) {
  return live_or_null(driver) ? driver->core->device_count() : 0;
}
