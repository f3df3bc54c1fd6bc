// SPDX-License-Identifier: MIT OR Apache-2.0
#include "report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "failure.h"
#include "numbers.h"
#include "table.h"

namespace cachalot::cli {
namespace {

constexpr const char* kPeakAllocated = "allocated_bytes.all.peak";
constexpr const char* kPeakReserved = "reserved_bytes.all.peak";

// Those that a reader looks for first.
constexpr std::array<std::string_view, 14> kMainStats{
    "requested_bytes.all.peak",   kPeakAllocated,
    "active_bytes.all.peak",      kPeakReserved,
    "reserved_bytes.all.current", "inactive_split_bytes.all.peak",
    "allocation.all.allocated",   "allocation.all.peak",
    "segment.all.allocated",      "segment.all.peak",
    "num_device_alloc",           "num_device_free",
    "num_alloc_retries",          "num_ooms",
};

std::string or_default(const std::string& config) { return config.empty() ? "defaults" : config; }

std::string release_name(const Run& run) {
  return release_text(cachalot_allocator_release(cachalot_replay_allocator(run.replay.get())));
}

cachalot_policy policy_of(const Run& run) {
  cachalot_policy policy{};
  policy.struct_size = sizeof policy;
  cachalot_error error = CACHALOT_ERROR_INIT;
  check(cachalot_get_policy(cachalot_replay_allocator(run.replay.get()), &policy, &error), error);
  return policy;
}

std::string page_name(uint64_t bytes) {
  const uint64_t kib = bytes >> 10;
  return kib < 1024 ? std::to_string(kib) + " KiB" : std::to_string(kib >> 10) + " MiB";
}

// Whose decisions a replay made: "PyTorch 2.15", "the serving policy with thrift".
std::string deciders_name(const Run& run) {
  const cachalot_policy policy = policy_of(run);
  const bool is_serving = policy.policy == CACHALOT_POLICY_SERVING;
  std::string text = is_serving ? "the serving policy" : "PyTorch " + release_name(run);
  if (policy.page_bytes != 0) text += ", with pages of " + page_name(policy.page_bytes);
  if (policy.thrift != 0) text += " and thrift";
  return text;
}

// "a device of 139.8 GiB".
std::string devices_of(const Run& run) {
  cachalot_device_totals totals{};
  totals.struct_size = sizeof totals;
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_allocator* const allocator = cachalot_replay_allocator(run.replay.get());
  check(cachalot_get_device_totals(allocator, 0, &totals, &error), error);
  const int32_t count = run.info.device_count;
  return (count == 1 ? "a device" : std::to_string(count) + " devices") + " of " +
         gibibytes(totals.total);
}

bool is_of_pytorch(const Run& run) {
  return *run.info.torch != '\0' && !std::string_view(run.info.recorder).starts_with("cachalot");
}

std::string recorder_of(const Run& run) {
  if (*run.info.torch == '\0') return "";
  const std::string version = std::string("PyTorch ") + run.info.torch + ", ";
  return is_of_pytorch(run) ? version : std::string(run.info.recorder) + " as " + version;
}

// Over the columns of figures.
std::string recorded_title(const Run& run) { return is_of_pytorch(run) ? "PyTorch" : "recorded"; }

void print_header(const Run& run, const ReplayCall& call) {
  const std::string config = call.config.value_or(run.info.config);
  Table table("ll");
  if (run.info.format >= 2) {
    const bool has_process = run.info.process_id != 0;
    if (*run.info.command != '\0') table.add({"program", run.info.command});
    table.add({"recorded",
               run.info.recorder + (has_process ? ", process " + std::to_string(run.info.process_id)
                                                : std::string())});
  } else {
    table.add({"workload", run.info.workload});
    table.add({"recorded", recorder_of(run) + "options: " + or_default(run.info.config)});
  }
  table.add({"replayed", "as " + deciders_name(run) + " on " + devices_of(run) +
                             (call.fraction != 0 ? ", " + percent(call.fraction) + " of it" : "") +
                             ", options: " + or_default(config)});
  table.add({"events", grouped(uint64_t{run.info.event_count})});
  table.print(stdout);
}

void print_memory_summary(const Run& run) {
  cachalot_allocator* const allocator = cachalot_replay_allocator(run.replay.get());
  for (int32_t device = 0; device < run.info.device_count; device++) {
    cachalot_error error = CACHALOT_ERROR_INIT;
    size_t length = 0;
    check(cachalot_memory_summary(allocator, device, 0, nullptr, 0, &length, &error), error);
    std::string text(length + 1, '\0');
    check(cachalot_memory_summary(allocator, device, 0, text.data(), text.size(), &length, &error),
          error);
    text.resize(length);
    std::printf("\n%s", text.c_str());
  }
}

void print_peaks(const Run& run) {
  const cachalot_replay_result& result = run.result;
  const uint64_t reserved = result.peak_reserved;
  Table table("lrrl");
  const auto add = [&](const char* name, uint64_t bytes, const std::string& remark) {
    table.add({name, mebibytes(bytes), percent(bytes, reserved), remark});
  };
  add("peak requested", result.peak_requested, "what the program asked for");
  add("peak allocated", result.peak_allocated, "the blocks that it got");
  add("peak reserved", reserved, "obtained from the device");
  const uint64_t idle = reserved - std::min(reserved, result.peak_allocated);
  add("never used at once", idle, "cached, or fragments that fit no request");
  table.print(stdout);
}

// Sums over all devices of the trace.
cachalot_policy_stats policy_stats(const Run& run) {
  cachalot_policy_stats sum{};
  for (int32_t device = 0; device < run.info.device_count; device++) {
    cachalot_policy_stats stats{};
    stats.struct_size = sizeof stats;
    cachalot_error error = CACHALOT_ERROR_INIT;
    cachalot_allocator* const allocator = cachalot_replay_allocator(run.replay.get());
    check(cachalot_get_policy_stats(allocator, device, &stats, &error), error);
    sum.pages_created += stats.pages_created;
    sum.pages_moved += stats.pages_moved;
    sum.pages_released += stats.pages_released;
    sum.blocks_borrowed += stats.blocks_borrowed;
    sum.stream_waits += stats.stream_waits;
    sum.host_waits += stats.host_waits;
  }
  return sum;
}

void add_policy_stats(const Run& run, Table* table) {
  const cachalot_policy_stats stats = policy_stats(run);
  table->add({"pages", grouped(stats.pages_created) + " obtained, " + grouped(stats.pages_moved) +
                           " moved, " + grouped(stats.pages_released) + " given back"});
  table->add({"streams", grouped(stats.blocks_borrowed) + " blocks borrowed, " +
                             grouped(stats.stream_waits) + " waits for another stream, " +
                             grouped(stats.host_waits) + " waits of the host"});
}

void print_calls(const Run& run) {
  const cachalot_replay_result& result = run.result;
  Table table("ll");
  table.add({"segments", grouped(result.segments) + " at the end, " +
                             grouped(result.segments_peak) + " at most"});
  table.add({"driver calls", grouped(result.driver_allocations) + " obtained memory, " +
                                 grouped(result.driver_frees) + " gave it back"});
  if (policy_of(run).policy == CACHALOT_POLICY_SERVING) add_policy_stats(run, &table);
  table.add({"requests", grouped(result.allocations) + ", of which " +
                             grouped(result.out_of_memory) + " ran out of memory"});
  table.add({"speed", rounded(static_cast<double>(result.events) / run.seconds) +
                          " events a second, reading included"});
  table.print(stdout);
}

std::string change(const StatPair& pair) {
  if (pair.is_equal()) return "equal";
  if (!pair.replayed) return "not in this release";
  const int64_t difference = *pair.replayed - pair.recorded;
  return std::string(difference > 0 ? "+" : "").append(grouped(difference));
}

// The main ones, or all; in any case those that differ from what was expected.
std::vector<const StatPair*> stats_of_interest(const Run& run, const ReplayCall& call) {
  const auto rank = [](const StatPair& pair) {
    return std::find(kMainStats.begin(), kMainStats.end(), pair.name) - kMainStats.begin();
  };
  std::vector<const StatPair*> chosen;
  for (const StatPair& pair : run.stats) {
    const bool is_main = rank(pair) < static_cast<std::ptrdiff_t>(kMainStats.size());
    if (call.all_stats || is_main || (call.expect && !pair.is_equal())) chosen.push_back(&pair);
  }
  if (!call.all_stats)
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](const StatPair* a, const StatPair* b) { return rank(*a) < rank(*b); });
  return chosen;
}

void print_stats(const Run& run, const ReplayCall& call) {
  if (run.stats.empty()) return;
  Table table("lrrl");
  table.add({"statistic", recorded_title(run), "cachalot"});
  table.rule();
  for (const StatPair* pair : stats_of_interest(run, call))
    table.add({pair->name, grouped(pair->recorded), pair->replayed ? grouped(*pair->replayed) : "-",
               change(*pair)});
  std::printf("\n");
  table.print(stdout);
}

void print_verdict(const Run& run, const ReplayCall& call) {
  if (!run.stats.empty())
    std::printf("\n  %zu of %zu statistics equal\n", run.equal_stats(), run.stats.size());
  if (!call.expect) return;
  std::printf("  %s of %s events equal\n", grouped(run.equal_events()).c_str(),
              grouped(run.result.events).c_str());
  if (run.result.differing_events == 0) return;
  const uint64_t line = run.result.first_difference + 2;
  std::printf("  first difference, line %s:\n    %-8s  %s\n    cachalot  %s\n",
              grouped(line).c_str(), recorded_title(run).c_str(), run.result.expected,
              run.result.actual);
}

std::string with_recorded(uint64_t bytes, int64_t recorded) {
  const std::string ours = mebibytes(bytes);
  return recorded < 0 ? ours : ours + " (" + mebibytes(static_cast<uint64_t>(recorded)) + ")";
}

}  // namespace

void print_report(const Run& run, const ReplayCall& call) {
  std::printf("%s\n", file_name(run.file).c_str());
  print_header(run, call);
  if (!call.brief) print_memory_summary(run);
  std::printf("\n");
  print_peaks(run);
  std::printf("\n");
  print_calls(run);
  print_stats(run, call);
  print_verdict(run, call);
  std::fflush(stdout);
}

OverviewRow overview_row(const Run& run) {
  const auto recorded = [&](const char* name) {
    const auto found = std::find_if(run.stats.begin(), run.stats.end(),
                                    [name](const StatPair& pair) { return pair.name == name; });
    return found == run.stats.end() ? int64_t{-1} : found->recorded;
  };
  return {.file = file_name(run.file),
          .events = run.result.events,
          .equal_events = run.equal_events(),
          .stats = run.stats.size(),
          .equal_stats = run.equal_stats(),
          .peak_allocated = run.result.peak_allocated,
          .peak_reserved = run.result.peak_reserved,
          .recorded_peak_allocated = recorded(kPeakAllocated),
          .recorded_peak_reserved = recorded(kPeakReserved),
          .seconds = run.seconds};
}

void print_overview(const std::vector<OverviewRow>& rows, const ReplayCall& call) {
  Table table("lrrrrr");
  table.add({"file", "events", "equal events", "equal statistics", "peak allocated (recorded)",
             "peak reserved (recorded)"});
  table.rule();
  uint64_t events = 0;
  uint64_t equal_events = 0;
  size_t stats = 0;
  size_t equal_stats = 0;
  double seconds = 0;
  const auto of_expected = [&](uint64_t equal) { return call.expect ? grouped(equal) : "-"; };
  const auto of_stats = [](size_t equal, size_t all) {
    return std::to_string(equal) + " of " + std::to_string(all);
  };
  for (const OverviewRow& row : rows) {
    table.add({row.file, grouped(row.events), of_expected(row.equal_events),
               of_stats(row.equal_stats, row.stats),
               with_recorded(row.peak_allocated, row.recorded_peak_allocated),
               with_recorded(row.peak_reserved, row.recorded_peak_reserved)});
    events += row.events;
    equal_events += row.equal_events;
    stats += row.stats;
    equal_stats += row.equal_stats;
    seconds += row.seconds;
  }
  table.rule();
  table.add({"total", grouped(events), of_expected(equal_events), of_stats(equal_stats, stats)});
  table.print(stdout);
  std::printf("\n  %s events a second, reading included, unpacking left out\n",
              rounded(static_cast<double>(events) / seconds).c_str());
}

}  // namespace cachalot::cli
