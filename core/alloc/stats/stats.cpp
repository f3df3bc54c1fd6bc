// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/stats/stats.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstring>

#include "base/assert.h"
#include "base/text.h"

namespace cachalot {

namespace {

// ---- The rows of memory_stats, sorted by code point

// The order of the names is part of the interface: it is that of torch.cuda.memory_stats, and
// bindings list the rows by index.
#define CACHALOT_ROW(name, member) \
  StatName { name, offsetof(Stats, member) }
#define CACHALOT_STAT_ROWS(stat)                                                                  \
  CACHALOT_ROW(#stat ".allocated", stat.allocated), CACHALOT_ROW(#stat ".current", stat.current), \
      CACHALOT_ROW(#stat ".freed", stat.freed), CACHALOT_ROW(#stat ".peak", stat.peak)
#define CACHALOT_ARRAY_ROWS(array)                                     \
  CACHALOT_STAT_ROWS(array.all), CACHALOT_STAT_ROWS(array.large_pool), \
      CACHALOT_STAT_ROWS(array.small_pool)
#define CACHALOT_COUNTER_ROW(counter) CACHALOT_ROW(#counter, counter)

constexpr StatName kRows[] = {
    CACHALOT_ARRAY_ROWS(active),
    CACHALOT_ARRAY_ROWS(active_bytes),
    CACHALOT_ARRAY_ROWS(allocated_bytes),
    CACHALOT_ARRAY_ROWS(allocation),
    CACHALOT_ARRAY_ROWS(inactive_split),
    CACHALOT_ARRAY_ROWS(inactive_split_bytes),
    CACHALOT_COUNTER_ROW(max_split_size),
    CACHALOT_COUNTER_ROW(num_alloc_retries),
    CACHALOT_COUNTER_ROW(num_device_alloc),
    CACHALOT_COUNTER_ROW(num_device_free),
    CACHALOT_COUNTER_ROW(num_oom_rejections),
    CACHALOT_COUNTER_ROW(num_ooms),
    CACHALOT_COUNTER_ROW(num_sync_all_streams),
    CACHALOT_STAT_ROWS(oversize_allocations),
    CACHALOT_STAT_ROWS(oversize_segments),
    CACHALOT_ARRAY_ROWS(requested_bytes),
    CACHALOT_ARRAY_ROWS(reserved_bytes),
    CACHALOT_ARRAY_ROWS(segment),
};

#undef CACHALOT_COUNTER_ROW
#undef CACHALOT_ARRAY_ROWS
#undef CACHALOT_STAT_ROWS
#undef CACHALOT_ROW

// Releases before 2.12 have no such row, so a caller that lists all rows must not meet it.
constexpr auto kRowsWithoutRejections = [] {
  std::array<StatName, std::size(kRows) - 1> rows{};
  std::copy_if(std::begin(kRows), std::end(kRows), rows.begin(), [](const StatName& row) {
    return row.offset != offsetof(Stats, num_oom_rejections);
  });
  return rows;
}();

// ---- The table of memory_summary

// Between the two bars of a line.
constexpr int kWidth = 75;
constexpr int kTitleRoom = 61;  // for the title and the blanks around its line

struct Metric {
  StatArray Stats::*values;
  const char* name;
  bool is_size;
};

// In the order and with the names of the reference's table.
constexpr Metric kMetrics[] = {
    {&Stats::allocated_bytes, "Allocated memory", true},
    {&Stats::active_bytes, "Active memory", true},
    {&Stats::requested_bytes, "Requested memory", true},
    {&Stats::reserved_bytes, "GPU reserved memory", true},
    {&Stats::inactive_split_bytes, "Non-releasable memory", true},
    {&Stats::allocation, "Allocations", false},
    {&Stats::active, "Active allocs", false},
    {&Stats::segment, "GPU reserved segments", false},
    {&Stats::inactive_split, "Non-releasable allocs", false},
};

constexpr int64_t Stat::*kColumns[] = {&Stat::current, &Stat::peak, &Stat::allocated, &Stat::freed};

// How a column shows its numbers: in the next unit from the threshold on, rounded down.
struct Scale {
  std::span<const char* const> units;
  int64_t divisor;
  double threshold;
  int digits;
  int unit_width;
};

constexpr const char* kSizeUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
constexpr const char* kCountUnits[] = {" ", "K", "M"};
constexpr Scale kSizeScale{kSizeUnits, 1024, 768.0 * 1024, 6, 3};
constexpr Scale kCountScale{kCountUnits, 1000, 750.0 * 1000, 7, 2};

// `reference` chooses the unit, so that the rows of a metric have the same [stats 6.8].
std::string format_value(int64_t value, int64_t reference, const Scale& scale) {
  size_t unit = 0;
  auto rest = static_cast<double>(reference);
  while (rest >= scale.threshold && unit + 1 < scale.units.size()) {
    value /= scale.divisor;
    rest /= static_cast<double>(scale.divisor);
    ++unit;
  }
  return format("%*" PRId64 " %-*s", scale.digits, value, scale.unit_width, scale.units[unit]);
}

// Owns the text, a line at a time.
class SummaryTable {
 public:
  void add_rule(char c) { add_line(std::string(kWidth, c)); }
  void add_line(const std::string& line) { text_ += "|" + line + "|\n"; }

  void add_row(const char* name, const Stat& stat, const Stat& reference, bool is_size) {
    std::string line = format(" %-21s", name);
    for (const auto column : kColumns)
      line +=
          " | " + format_value(stat.*column, reference.*column, is_size ? kSizeScale : kCountScale);
    add_line(line + " ");
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add_head(const Stats& stats, int device, const char* title, SummaryTable* table) {
  table->add_rule('=');
  const int room = kTitleRoom - static_cast<int>(std::strlen(title));
  table->add_line(format("%*s %s, device ID %-*d ", room / 2, "", title, room / 2, device));
  table->add_rule('-');
  table->add_line(format("%11s CUDA OOMs: %-12" PRId64 " | %6s cudaMalloc retries: %-8" PRId64 "  ",
                         "", stats.num_ooms, "", stats.num_alloc_retries));
  table->add_rule('=');
  table->add_line("        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ");
}

}  // namespace

std::span<const StatName> stat_names(bool with_rejections) {
  if (with_rejections) return kRows;
  return kRowsWithoutRejections;
}

// By memcpy: Stats has no array of its values, and one read through a pointer of another type would
// be undefined.
int64_t stat_value(const Stats& stats, const StatName& row) {
  CACHALOT_ASSERT(1, row.offset % sizeof(int64_t) == 0 && row.offset < sizeof(Stats));
  int64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const char*>(&stats) + row.offset, sizeof value);
  return value;
}

std::string memory_summary(const Stats& stats, int device, bool abbreviated, Texts texts) {
  SummaryTable table;
  add_head(stats, device, wording_of(texts).summary_title, &table);
  for (const Metric& metric : kMetrics) {
    const StatArray& values = stats.*metric.values;
    table.add_rule('-');
    table.add_row(metric.name, values.all, values.all, metric.is_size);
    // Lines of a size class show the unit of the line of both, so that the columns can be added by
    // eye.
    if (abbreviated) continue;
    table.add_row("      from large pool", values.large_pool, values.all, metric.is_size);
    table.add_row("      from small pool", values.small_pool, values.all, metric.is_size);
  }
  table.add_rule('-');
  table.add_row("Oversize allocations", stats.oversize_allocations, stats.oversize_allocations,
                false);
  table.add_rule('-');
  table.add_row("Oversize GPU segments", stats.oversize_segments, stats.oversize_segments, false);
  table.add_rule('=');
  return table.text();
}

}  // namespace cachalot
