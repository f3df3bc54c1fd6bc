// SPDX-License-Identifier: MIT OR Apache-2.0
// The statistics in the text format of Prometheus (version 0.0.4), for a server to be scraped.
//
// Names: bytes and counts of now are gauges, sums end in _total, peaks in _peak_bytes. Each family
// is written once, with its series in the order of devices. Sums can fall back to 0
// (reset_accumulated_stats), which is what Prometheus expects of counters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alloc/config/pool_id.h"
#include "alloc/pools/sleeping_pool.h"
#include "alloc/stats/device_totals.h"
#include "alloc/stats/pinned_stats.h"
#include "alloc/stats/policy_stats.h"
#include "alloc/stats/stats.h"
#include "alloc/tenants/labels.h"
#include "alloc/tenants/tenants.h"

namespace cachalot {

// The figures of one device. The caller reads each member at a moment of its own.
struct DeviceMetrics {
  int device = 0;
  uint64_t limit = 0;  // kUnlimited: none
  Stats stats;
  PolicyStats policy;
  std::vector<std::pair<PoolId, StatArray>> pools;
  std::vector<LabelStats> labels;
  std::vector<TenantRow> tenants;
  DeviceUse use;
  // Written only once a pool has slept, so that the pages of most programs stay as they are.
  SleepStats sleep;
  uint64_t context = 0;  // where a device has figures for each context: which; 0: the primary one
};

// The whole content of the page, so that the text is a function of its argument.
struct Metrics {
  std::string version;  // of the library
  std::string release;  // that it follows
  std::string backend;
  bool is_serving = false;  // the serving policy decides
  std::string process;      // where pages of several are read together: which; "": they are not
  std::vector<DeviceMetrics> devices;
  std::optional<PinnedStats> pinned;  // nothing where no pinned memory was used
};

std::string metrics_text(const Metrics& metrics);

}  // namespace cachalot
