// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/tools/metrics.h"

#include <algorithm>
#include <cinttypes>
#include <map>
#include <optional>
#include <utility>

#include "base/sums.h"
#include "base/text.h"
#include "base/units.h"
#include "base/utf8.h"

namespace cachalot {
namespace {

// Of a family: a value of now, or a sum that rises until it is reset.
enum class Kind { kGauge, kCounter };

// ---- Families

// A row of these tables is a family of the page: its name, its text, and where its value lies in
// the statistics. docs/serving.md lists the families, and dashboards know them by name, so a name
// that was released stays.
struct ArrayFamily {
  const char* name;
  const char* help;
  Kind kind;
  StatArray Stats::*statistic;
  int64_t Stat::*value;
};

// By kind of pool: their sum is what all pools have.
constexpr ArrayFamily kByPool[] = {
    {"cachalot_allocated_bytes", "Bytes of blocks that are handed out.", Kind::kGauge,
     &Stats::allocated_bytes, &Stat::current},
    {"cachalot_requested_bytes", "Bytes that were asked for, of the active blocks.", Kind::kGauge,
     &Stats::requested_bytes, &Stat::current},
    {"cachalot_active_bytes", "Bytes of blocks that are handed out or wait for other streams.",
     Kind::kGauge, &Stats::active_bytes, &Stat::current},
    {"cachalot_reserved_bytes", "Bytes obtained from the driver.", Kind::kGauge,
     &Stats::reserved_bytes, &Stat::current},
    {"cachalot_inactive_split_bytes", "Bytes of free pieces of segments that are partly in use.",
     Kind::kGauge, &Stats::inactive_split_bytes, &Stat::current},
    {"cachalot_allocated_blocks", "Blocks that are handed out.", Kind::kGauge, &Stats::allocation,
     &Stat::current},
    {"cachalot_active_blocks", "Blocks that are handed out or wait for other streams.",
     Kind::kGauge, &Stats::active, &Stat::current},
    {"cachalot_inactive_split_blocks", "Free pieces of segments that are partly in use.",
     Kind::kGauge, &Stats::inactive_split, &Stat::current},
    {"cachalot_segments", "Segments obtained from the driver, without expandable ones.",
     Kind::kGauge, &Stats::segment, &Stat::current},
    {"cachalot_allocations_total", "Blocks handed out.", Kind::kCounter, &Stats::allocation,
     &Stat::allocated},
    {"cachalot_frees_total", "Blocks freed by their callers.", Kind::kCounter, &Stats::allocation,
     &Stat::freed},
    {"cachalot_handed_out_bytes_total", "Bytes of blocks handed out.", Kind::kCounter,
     &Stats::allocated_bytes, &Stat::allocated},
    {"cachalot_freed_bytes_total", "Bytes of blocks freed by their callers.", Kind::kCounter,
     &Stats::allocated_bytes, &Stat::freed},
};

// Of all pools together: the peaks of the kinds do not add up.
constexpr ArrayFamily kPeaks[] = {
    {"cachalot_allocated_peak_bytes", "The highest cachalot_allocated_bytes since the last reset.",
     Kind::kGauge, &Stats::allocated_bytes, &Stat::peak},
    {"cachalot_requested_peak_bytes", "The highest cachalot_requested_bytes since the last reset.",
     Kind::kGauge, &Stats::requested_bytes, &Stat::peak},
    {"cachalot_active_peak_bytes", "The highest cachalot_active_bytes since the last reset.",
     Kind::kGauge, &Stats::active_bytes, &Stat::peak},
    {"cachalot_reserved_peak_bytes", "The highest cachalot_reserved_bytes since the last reset.",
     Kind::kGauge, &Stats::reserved_bytes, &Stat::peak},
    {"cachalot_inactive_split_peak_bytes",
     "The highest cachalot_inactive_split_bytes since the last reset.", Kind::kGauge,
     &Stats::inactive_split_bytes, &Stat::peak},
};

// A statistic that has no size classes; the present value is shown.
struct StatFamily {
  const char* name;
  const char* help;
  Stat Stats::*statistic;
};

constexpr StatFamily kOversizeStats[] = {
    {"cachalot_oversize_blocks", "Blocks handed out of max_split_size and more.",
     &Stats::oversize_allocations},
    {"cachalot_oversize_segments", "Segments of max_split_size and more.",
     &Stats::oversize_segments},
};

// Counters of events, which are plain numbers in the statistics.
struct NumberFamily {
  const char* name;
  const char* help;
  int64_t Stats::*value;
};

constexpr NumberFamily kNumbers[] = {
    {"cachalot_alloc_retries_total", "Requests to the driver after the whole cache was released.",
     &Stats::num_alloc_retries},
    {"cachalot_ooms_total", "Out-of-memory errors given to callers.", &Stats::num_ooms},
    {"cachalot_oom_rejections_total", "Requests refused before the driver was asked.",
     &Stats::num_oom_rejections},
    {"cachalot_sync_all_streams_total", "Waits for all recorded streams.",
     &Stats::num_sync_all_streams},
    {"cachalot_device_allocs_total", "Segments obtained or ranges mapped.",
     &Stats::num_device_alloc},
    {"cachalot_device_frees_total", "Segments given back or ranges unmapped.",
     &Stats::num_device_free},
};

template <typename Row>
// A statistic of a label or a tenant.
struct RowFamily {
  const char* name;
  const char* help;
  Kind kind;
  Stat Row::*statistic;
  int64_t Stat::*value;
};

constexpr RowFamily<LabelStats> kByLabel[] = {
    {"cachalot_label_allocated_bytes", "Bytes handed out under a label.", Kind::kGauge,
     &LabelStats::allocated_bytes, &Stat::current},
    {"cachalot_label_allocated_peak_bytes",
     "The highest cachalot_label_allocated_bytes since the last reset.", Kind::kGauge,
     &LabelStats::allocated_bytes, &Stat::peak},
    {"cachalot_label_allocated_blocks", "Blocks handed out under a label.", Kind::kGauge,
     &LabelStats::allocation, &Stat::current},
    {"cachalot_label_allocations_total", "Blocks handed out under a label.", Kind::kCounter,
     &LabelStats::allocation, &Stat::allocated},
    {"cachalot_label_frees_total", "Blocks freed that were handed out under a label.",
     Kind::kCounter, &LabelStats::allocation, &Stat::freed},
};

constexpr RowFamily<TenantUse> kByTenant[] = {
    {"cachalot_tenant_allocated_bytes", "Bytes of blocks that a tenant has.", Kind::kGauge,
     &TenantUse::allocated_bytes, &Stat::current},
    {"cachalot_tenant_requested_bytes", "Bytes that were asked for, of the blocks of a tenant.",
     Kind::kGauge, &TenantUse::requested_bytes, &Stat::current},
    {"cachalot_tenant_allocated_peak_bytes",
     "The highest cachalot_tenant_allocated_bytes since the last reset.", Kind::kGauge,
     &TenantUse::allocated_bytes, &Stat::peak},
    {"cachalot_tenant_requested_peak_bytes",
     "The highest cachalot_tenant_requested_bytes since the last reset.", Kind::kGauge,
     &TenantUse::requested_bytes, &Stat::peak},
    {"cachalot_tenant_allocated_blocks", "Blocks that a tenant has.", Kind::kGauge,
     &TenantUse::allocation, &Stat::current},
    {"cachalot_tenant_allocations_total", "Blocks handed out to a tenant.", Kind::kCounter,
     &TenantUse::allocation, &Stat::allocated},
    {"cachalot_tenant_frees_total", "Blocks of a tenant freed by their callers.", Kind::kCounter,
     &TenantUse::allocation, &Stat::freed},
    {"cachalot_tenant_handed_out_bytes_total", "Bytes of blocks handed out to a tenant.",
     Kind::kCounter, &TenantUse::allocated_bytes, &Stat::allocated},
    {"cachalot_tenant_freed_bytes_total", "Bytes of blocks of a tenant freed by their callers.",
     Kind::kCounter, &TenantUse::allocated_bytes, &Stat::freed},
};

// A counter of a tenant's events.
struct TenantSumFamily {
  const char* name;
  const char* help;
  int64_t TenantUse::*value;
};

constexpr TenantSumFamily kTenantSums[] = {
    {"cachalot_tenant_ooms_total", "Requests of a tenant that ended as out of memory.",
     &TenantUse::num_ooms},
    {"cachalot_tenant_pressure_calls_total", "Calls of a tenant's callback for memory.",
     &TenantUse::num_pressure_calls},
    {"cachalot_tenant_pressure_freed_bytes_total",
     "Bytes by which what a tenant has sank while its callback ran.",
     &TenantUse::pressure_freed_bytes},
};

// What a policy of the library's own has done.
struct PolicyFamily {
  const char* name;
  const char* help;
  uint64_t PolicyStats::*value;
};

constexpr PolicyFamily kPolicySums[] = {
    {"cachalot_policy_pages_created_total", "Pages obtained from the driver.",
     &PolicyStats::pages_created},
    {"cachalot_policy_pages_moved_total",
     "Pages that went from cached blocks to where they were missing.", &PolicyStats::pages_moved},
    {"cachalot_policy_pages_released_total", "Pages given back to the driver.",
     &PolicyStats::pages_released},
    {"cachalot_policy_borrowed_blocks_total",
     "Requests served by a cached block of another stream.", &PolicyStats::blocks_borrowed},
    {"cachalot_policy_stream_waits_total", "Waits of a stream for another, on the device.",
     &PolicyStats::stream_waits},
    {"cachalot_policy_host_waits_total", "Waits of a call for a stream or the device.",
     &PolicyStats::host_waits},
};

// What pools that sleep had, and need to wake. None of it is reserved or allocated, so no other family has a part of
// it.
struct SleepFamily {
  const char* name;
  const char* help;
  Kind kind;
  uint64_t SleepStats::*value;
};

constexpr SleepFamily kSleep[] = {
    {"cachalot_asleep_bytes", "Bytes that pools which sleep need to wake.", Kind::kGauge,
     &SleepStats::asleep_bytes},
    {"cachalot_asleep_allocated_bytes", "Bytes of the blocks of pools that sleep.", Kind::kGauge,
     &SleepStats::allocated_bytes},
    {"cachalot_asleep_kept_bytes", "Bytes of contents of pools that sleep, on the host.",
     Kind::kGauge, &SleepStats::kept_bytes},
    {"cachalot_asleep_pools", "Pools that sleep.", Kind::kGauge, &SleepStats::pools},
    {"cachalot_pool_sleeps_total", "How often pools fell asleep.", Kind::kCounter,
     &SleepStats::num_sleeps},
    {"cachalot_pool_wakes_total", "How often pools woke.", Kind::kCounter, &SleepStats::num_wakes},
};

// ---- Lines

// Prometheus refuses a whole page for one label that is not UTF-8.
std::string label_value(const std::string& text) {
  std::string escaped;
  for (const char c : valid_utf8(text)) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// The id too, since two tenants may have the same name, and a series must not come twice.
std::string tenant_labels(const TenantRow& tenant) {
  return ",tenant=\"" + label_value(tenant.name) + format("\",id=\"%" PRIu64 "\"", tenant.id);
}

// Nothing: there is no limit, and no number would say so.
std::optional<int64_t> limit_value(uint64_t limit) {
  if (limit == kUnlimited) return {};
  return shown_bytes(limit);
}

// Owns the text while it grows. The format wants all series of a family behind each other, so a
// family is the outer loop and the devices are the inner one.
class MetricsWriter {
 public:
  explicit MetricsWriter(const Metrics& metrics) : metrics_(metrics) {}

  std::string write() {
    write_build_info();
    if (has_identities()) write_identities();
    write_device();
    write_limits();
    for (const ArrayFamily& family : kByPool) write_by_pool(family);
    for (const ArrayFamily& family : kPeaks) write_peak(family);
    for (const StatFamily& family : kOversizeStats) write_oversize(family);
    for (const NumberFamily& family : kNumbers) write_number(family);
    write_policy("cachalot_pinned_bytes", "Bytes of pages and segments that are pinned.",
                 Kind::kGauge, &PolicyStats::pinned_bytes);
    if (metrics_.is_serving) {
      for (const PolicyFamily& family : kPolicySums)
        write_policy(family.name, family.help, Kind::kCounter, family.value);
    }
    write_private_pools("cachalot_private_pool_reserved_bytes",
                        "Bytes of cachalot_reserved_bytes that belong to a private pool.");
    for (const RowFamily<LabelStats>& family : kByLabel) write_by_label(family);
    if (has_slept()) write_sleep();
    if (has_tenants()) write_tenants();
    if (metrics_.pinned) write_pinned_memory(*metrics_.pinned);
    return std::move(text_);
  }

 private:
  // The head of a family. A family without series has a head all the same, which tells a reader
  // that it exists.
  void begin(const char* name, const char* help, Kind kind) {
    name_ = name;
    text_ += format("# HELP %s %s\n# TYPE %s %s\n", name, help, name,
                    kind == Kind::kCounter ? "counter" : "gauge");
  }

  // A series of the family that begin() has opened.
  void add(const std::string& labels, int64_t value) {
    text_ += name_;
    text_ += "{" + labels + "} " + std::to_string(value) + "\n";
  }

  // Each series of a device begins with it.
  std::string device_label(const DeviceMetrics& device) const {
    std::string labels = format("device=\"%d\"", device.device);
    if (device.context != 0) labels += format(",context=\"%" PRIx64 "\"", device.context);
    return labels + process_label();
  }

  std::string process_label() const {
    return metrics_.process.empty() ? "" : ",process=\"" + label_value(metrics_.process) + "\"";
  }

  // The usual shape for facts that are no number: labels, and the value 1.
  void write_build_info() {
    begin("cachalot_build_info",
          "The library, the PyTorch release that it follows, the backend, the policy.",
          Kind::kGauge);
    add("version=\"" + label_value(metrics_.version) + "\",release=\"" +
            label_value(metrics_.release) + "\",backend=\"" + label_value(metrics_.backend) +
            "\",policy=\"" + (metrics_.is_serving ? "serving" : "pytorch") + "\"" + process_label(),
        1);
  }

  bool has_identities() const {
    return std::any_of(metrics_.devices.begin(), metrics_.devices.end(),
                       [](const DeviceMetrics& device) { return is_known(device.use.identity); });
  }

  static bool is_known(const DeviceIdentity& identity) {
    return !identity.uuid.empty() || !identity.pci_bus_id.empty();
  }

  // Other exporters know a device by these names, so that queries can join their series with these.
  void write_identities() {
    begin("cachalot_device_info", "What other tools call a device.", Kind::kGauge);
    for (const DeviceMetrics& device : metrics_.devices) {
      const DeviceIdentity& identity = device.use.identity;
      if (!is_known(identity)) continue;
      add(device_label(device) + ",uuid=\"" + label_value(identity.uuid) + "\",gpu_uuid=\"" +
              label_value(identity.gpu_uuid) + "\",pci_bus_id=\"" +
              label_value(identity.pci_bus_id) + "\"",
          1);
    }
  }

  // A figure that the driver does not tell has no series: 0 would be an answer.
  void write_device() {
    write_totals("cachalot_device_total_bytes", "Bytes of memory that a device has.",
                 [](const DeviceTotals& totals) { return totals.total; });
    write_totals("cachalot_device_free_bytes", "Bytes that are free on a device.",
                 [](const DeviceTotals& totals) { return totals.total - totals.used; });
    write_totals("cachalot_device_outside_bytes",
                 "Bytes in use on a device that the allocator has not obtained.",
                 [](const DeviceTotals& totals) { return totals.outside; });
    begin("cachalot_device_process_bytes", "Bytes in use on a device by a process.", Kind::kGauge);
    for (const DeviceMetrics& device : metrics_.devices) {
      for (const auto& [pid, bytes] : device.use.processes)
        add(device_label(device) + format(",pid=\"%" PRIu64 "\"", pid), shown_bytes(bytes));
    }
  }

  template <typename ValueOf>
  void write_totals(const char* name, const char* help, ValueOf value_of) {
    begin(name, help, Kind::kGauge);
    for (const DeviceMetrics& device : metrics_.devices) {
      if (device.use.totals) add(device_label(device), shown_bytes(value_of(*device.use.totals)));
    }
  }

  // A device without a limit has no series.
  void write_limits() {
    begin("cachalot_limit_bytes", "The most that may be reserved.", Kind::kGauge);
    for (const DeviceMetrics& device : metrics_.devices) {
      if (const auto limit = limit_value(device.limit)) add(device_label(device), *limit);
    }
  }

  // The sum over the label `pool` is the statistic of all, so no series of all is written.
  void write_by_pool(const ArrayFamily& family) {
    begin(family.name, family.help, family.kind);
    for (const DeviceMetrics& device : metrics_.devices)
      add_by_pool(device_label(device), device.stats.*family.statistic, family.value);
  }

  // Under backend:cudaMallocAsync there is only the driver's pool.
  void add_by_pool(const std::string& labels, const StatArray& statistic, int64_t Stat::*value) {
    if (metrics_.backend != "native") return add(labels + ",pool=\"driver\"", statistic.all.*value);
    add(labels + ",pool=\"small\"", statistic.small_pool.*value);
    add(labels + ",pool=\"large\"", statistic.large_pool.*value);
  }

  // Of all pools only, see kPeaks.
  void write_peak(const ArrayFamily& family) {
    begin(family.name, family.help, family.kind);
    for (const DeviceMetrics& device : metrics_.devices)
      add(device_label(device), (device.stats.*family.statistic).all.*family.value);
  }

  void write_oversize(const StatFamily& family) {
    begin(family.name, family.help, Kind::kGauge);
    for (const DeviceMetrics& device : metrics_.devices)
      add(device_label(device), (device.stats.*family.statistic).current);
  }

  // Counters of events have no size classes.
  void write_number(const NumberFamily& family) {
    begin(family.name, family.help, Kind::kCounter);
    for (const DeviceMetrics& device : metrics_.devices)
      add(device_label(device), device.stats.*family.value);
  }

  void write_policy(const char* name, const char* help, Kind kind, uint64_t PolicyStats::*value) {
    begin(name, help, kind);
    for (const DeviceMetrics& device : metrics_.devices)
      add(device_label(device), shown_bytes(device.policy.*value));
  }

  // Of no device.
  void write_pinned_memory(const PinnedStats& stats) {
    write_number("cachalot_host_reserved_bytes", "Bytes of pinned host memory that were obtained.",
                 Kind::kGauge, stats.allocated_bytes.current);
    write_number("cachalot_host_reserved_peak_bytes", "The highest cachalot_host_reserved_bytes.",
                 Kind::kGauge, stats.allocated_bytes.peak);
    write_number("cachalot_host_active_bytes",
                 "Bytes of pinned blocks that are handed out or wait for streams.", Kind::kGauge,
                 stats.active_bytes.current);
    write_number("cachalot_host_active_blocks",
                 "Pinned blocks that are handed out or wait for streams.", Kind::kGauge,
                 stats.active_requests.current);
    write_number("cachalot_host_allocs_total", "Pinned blocks obtained from the driver.",
                 Kind::kCounter, stats.allocations.allocated);
    write_number("cachalot_host_frees_total", "Pinned blocks given back to the driver.",
                 Kind::kCounter, stats.allocations.freed);
    write_number("cachalot_host_alloc_microseconds_total",
                 "Time in the driver's calls for pinned blocks.", Kind::kCounter,
                 stats.allocate_times.total);
  }

  void write_number(const char* name, const char* help, Kind kind, int64_t value) {
    begin(name, help, kind);
    text_ += std::string(name) + " " + std::to_string(value) + "\n";
  }

  void write_private_pools(const char* name, const char* help) {
    begin(name, help, Kind::kGauge);
    for (const DeviceMetrics& device : metrics_.devices) {
      for (const auto& [id, reserved] : device.pools) {
        // The kind tells graph pools from user pools: both count their ids from 1.
        const std::string whose =
            format(",kind=\"%s\",id=\"%" PRIu64 "\"", id.first != 0 ? "graph" : "user", id.hash());
        add_by_pool(device_label(device) + whose, reserved, &Stat::current);
      }
    }
  }

  void write_by_label(const RowFamily<LabelStats>& family) {
    begin(family.name, family.help, family.kind);
    for (const DeviceMetrics& device : metrics_.devices) {
      // A series must not come twice, so labels that differ in bytes that are no UTF-8 are one.
      std::map<std::string, int64_t> sums;
      for (const LabelStats& row : device.labels) {
        int64_t& sum = sums[label_value(*row.label)];
        sum = add_to_sum(sum, (row.*family.statistic).*family.value);
      }
      for (const auto& [label, sum] : sums)
        add(device_label(device) + ",label=\"" + label + "\"", sum);
    }
  }

  bool has_slept() const {
    return std::any_of(metrics_.devices.begin(), metrics_.devices.end(),
                       [](const DeviceMetrics& device) { return device.sleep.num_sleeps != 0; });
  }

  void write_sleep() {
    for (const SleepFamily& family : kSleep) {
      begin(family.name, family.help, family.kind);
      for (const DeviceMetrics& device : metrics_.devices)
        add(device_label(device), shown_bytes(device.sleep.*family.value));
    }
  }

  // Without tenants no family of theirs is written at all: most programs have none, and each family
  // costs two lines.
  bool has_tenants() const {
    return std::any_of(metrics_.devices.begin(), metrics_.devices.end(),
                       [](const DeviceMetrics& device) { return !device.tenants.empty(); });
  }

  // The default tenant has a row as well, so that the rows add up to the device's figures.
  void write_tenants() {
    for (const RowFamily<TenantUse>& family : kByTenant) {
      write_by_tenant(family.name, family.help, family.kind, [&](const TenantRow& tenant) {
        return std::optional((tenant.use.*family.statistic).*family.value);
      });
    }
    if (has_slept()) {
      write_by_tenant("cachalot_tenant_asleep_bytes",
                      "Bytes of blocks of a tenant whose pools sleep.", Kind::kGauge,
                      [](const TenantRow& tenant) {
                        return std::optional(shown_bytes(tenant.use.asleep_bytes));
                      });
    }
    write_tenant_terms();
    for (const TenantSumFamily& family : kTenantSums) {
      write_by_tenant(family.name, family.help, Kind::kCounter, [&](const TenantRow& tenant) {
        return std::optional(tenant.use.*family.value);
      });
    }
  }

  void write_tenant_terms() {
    write_by_tenant("cachalot_tenant_guaranteed_bytes", "What a tenant can have at any time.",
                    Kind::kGauge, [](const TenantRow& tenant) {
                      return std::optional(shown_bytes(tenant.terms.guaranteed));
                    });
    write_by_tenant("cachalot_tenant_limit_bytes", "The most that a tenant may have.", Kind::kGauge,
                    [](const TenantRow& tenant) { return limit_value(tenant.terms.limit); });
    write_by_tenant(
        "cachalot_tenant_priority", "Tenants of lower priority give first.", Kind::kGauge,
        [](const TenantRow& tenant) { return std::optional<int64_t>(tenant.terms.priority); });
  }

  // A tenant without a value has no series.
  template <typename ValueOf>
  void write_by_tenant(const char* name, const char* help, Kind kind, ValueOf value_of) {
    begin(name, help, kind);
    for (const DeviceMetrics& device : metrics_.devices) {
      for (const TenantRow& tenant : device.tenants) {
        if (const auto value = value_of(tenant))
          add(device_label(device) + tenant_labels(tenant), *value);
      }
    }
  }

  const Metrics& metrics_;
  const char* name_ = "";
  std::string text_;
};

}  // namespace

std::string metrics_text(const Metrics& metrics) { return MetricsWriter(metrics).write(); }

}  // namespace cachalot
