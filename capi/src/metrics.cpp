// SPDX-License-Identifier: MIT OR Apache-2.0
// Statistics for Prometheus.
#include "cachalot/metrics.h"

#include "alloc/tools/metrics.h"
#include "cachalot/status.h"
#include "core_of.h"
#include "metrics_of.h"
#include "pinned_cache.h"

namespace cachalot::capi {

namespace {

Metrics without_devices(Allocator& core) {
  Metrics metrics;
  metrics.version = cachalot_version();
  metrics.release = core.rules().release == Release::k2_11 ? "2.11" : "2.15";
  metrics.backend = core.backend_name();
  metrics.is_serving = core.serving().is_on;
  return metrics;
}

DeviceMetrics of_device(Allocator& core, int device) {
  return {device,
          core.memory_limit(device),
          core.stats(device),
          core.policy_stats(device),
          core.stats_of_existing_pools(device),
          core.label_stats(device),
          core.tenants()->rows(device),
          {},
          core.sleep_stats(device, {})};
}

}  // namespace

Metrics metrics_of(Allocator& core) {
  Metrics metrics = without_devices(core);
  for (int device = 0; device < core.device_count(); device++) {
    metrics.devices.push_back(of_device(core, device));
    metrics.devices.back().use = core.device_use(device);
  }
  return metrics;
}

Metrics metrics_of_device(Allocator& core, int device) {
  Metrics metrics = without_devices(core);
  metrics.devices.push_back(of_device(core, device));
  return metrics;
}

}  // namespace cachalot::capi

using namespace cachalot;
using namespace cachalot::capi;

cachalot_status cachalot_metrics_text(cachalot_allocator* allocator, char* buffer, size_t capacity,
                                      size_t* out_length, cachalot_error* error) {
  return guard(error, [&] {
    Metrics metrics = metrics_of(core_of(allocator));
    metrics.pinned = pinned_stats_of(*allocator);
    write_text(buffer, capacity, out_length, metrics_text(metrics));
  });
}
