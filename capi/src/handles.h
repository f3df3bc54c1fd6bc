// SPDX-License-Identifier: MIT OR Apache-2.0
// What stands behind the opaque types of the C interface.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "alloc/allocator.h"
#include "alloc/backend/report.h"
#include "alloc/trace/snapshot.h"
#include "base/assert.h"
#include "cachalot/allocator.h"
#include "cachalot/driver.h"
#include "cachalot/report.h"
#include "cachalot/snapshot.h"
#include "device/device.h"
#include "device/pinned_driver.h"
#include "handle.h"
#include "oom_dump.h"
#include "recorders.h"

struct cachalot_driver : cachalot::capi::Handle<cachalot::capi::HandleKind::kDriver> {
  explicit cachalot_driver(std::shared_ptr<cachalot::Driver> core_driver)
      : core(std::move(core_driver)) {
    CACHALOT_ASSERT(1, core);
  }
  ~cachalot_driver() { CACHALOT_ASSERT(1, references.load() == 0); }
  cachalot_driver(const cachalot_driver&) = delete;
  cachalot_driver& operator=(const cachalot_driver&) = delete;

  const std::shared_ptr<cachalot::Driver> core;
  std::atomic<int64_t> references{1};
  std::atomic<bool> is_callers{false};  // one of the references is the caller's to give back
};

namespace cachalot::capi {

struct DropReference {
  void operator()(cachalot_driver* driver) const noexcept {
    const int64_t before = driver->references.fetch_sub(1, std::memory_order_acq_rel);
    CACHALOT_ASSERT(1, before > 0);
    if (before == 1) delete driver;
  }
};

// One counted reference to a driver.
using DriverReference = std::unique_ptr<cachalot_driver, DropReference>;

inline DriverReference new_driver(std::shared_ptr<Driver> core) {
  return DriverReference(new cachalot_driver(std::move(core)));
}

// One reference more to a driver that somebody holds.
inline DriverReference share(cachalot_driver& driver) {
  const int64_t before = driver.references.fetch_add(1, std::memory_order_relaxed);
  CACHALOT_ASSERT(1, before > 0);
  return DriverReference(&driver);
}

// The caller has this reference from now on, and gives it back with cachalot_driver_destroy. Once:
// what allocators hold is not the caller's, however often it asks.
inline cachalot_driver* give_to_caller(DriverReference driver) {
  driver->is_callers.store(true, std::memory_order_relaxed);
  return driver.release();
}

inline void take_from_caller(cachalot_driver& driver) {
  if (driver.is_callers.exchange(false)) DropReference()(&driver);
}

// A driver of its own, as cachalot_driver_open makes it. NULL or "": by the environment.
DriverReference open_driver(const char* name);

}  // namespace cachalot::capi

struct cachalot_allocator : cachalot::capi::Handle<cachalot::capi::HandleKind::kAllocator> {
  cachalot_allocator(cachalot::capi::DriverReference driver_reference,
                     const cachalot::AllocatorOptions& options)
      : driver(std::move(driver_reference)),
        core(options),
        recorders(core, options.log),
        oom_dump(core, options.log) {
    CACHALOT_ASSERT(1, driver && driver->core.get() == &core.driver());
  }

  const cachalot::capi::DriverReference driver;  // the same as core.driver()
  cachalot::Allocator core;
  cachalot::capi::Recorders recorders;
  cachalot::capi::OomDump oom_dump;

  // With pinned_config: the allocator that has the pinned memory, and its driver; else null. It is made with this one.
  std::unique_ptr<cachalot_allocator> pinned;
  std::shared_ptr<cachalot::PinnedDriver> pinned_driver;
  bool is_of_another = false;  // it is the `pinned` of one
};

struct cachalot_snapshot : cachalot::capi::Handle<cachalot::capi::HandleKind::kSnapshot> {
  explicit cachalot_snapshot(cachalot::Snapshot rows) : core(std::move(rows)) {}

  const cachalot::Snapshot core;
};

struct cachalot_report : cachalot::capi::Handle<cachalot::capi::HandleKind::kReport> {
  explicit cachalot_report(cachalot::Report numbers) : core(std::move(numbers)) {}

  const cachalot::Report core;
};
