// SPDX-License-Identifier: MIT OR Apache-2.0
// What a replay came to, as text on standard output.
#pragma once

#include <vector>

#include "run.h"

namespace cachalot::cli {

void print_report(const Run& run, const ReplayCall& call);

// A row of the table over several files.
struct OverviewRow {
  std::string file;
  uint64_t events;
  uint64_t equal_events;
  size_t stats;
  size_t equal_stats;
  uint64_t peak_allocated;
  uint64_t peak_reserved;
  int64_t recorded_peak_allocated;  // negative: not recorded
  int64_t recorded_peak_reserved;
  double seconds;
};

OverviewRow overview_row(const Run& run);
void print_overview(const std::vector<OverviewRow>& rows, const ReplayCall& call);

}  // namespace cachalot::cli
