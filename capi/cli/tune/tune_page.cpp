// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tune_page.h"

#include <algorithm>

#include "../report_page.h"
#include "tune_report.h"

namespace cachalot::cli {
namespace {

uint64_t needed_by_defaults(const Tuned& tuned) {
  const TunedRow* const row = tuned.row_of({});
  return row == nullptr ? 0 : row->capacity.fits;
}

// Of several recordings the one that needs the largest device under the defaults.
const Tuned& shown_one(const std::vector<Tuned>& single) {
  return *std::max_element(single.begin(), single.end(), [](const Tuned& a, const Tuned& b) {
    return needed_by_defaults(a) < needed_by_defaults(b);
  });
}

// On the device that was asked for.
ReportRun replay(const Tuned& tuned, const std::string& config) {
  const TunedRun& run = *tuned.runs.front();
  ReplayCall call;
  call.config = config;
  call.torch = release_text(run.release());
  call.capacity = tuned.usable;
  return report_run(run.trace(), run.name(), call);
}

}  // namespace

std::string tune_page(const TuneResult& result, const DriverCosts& costs) {
  const Tuned& answer = result.together ? *result.together : result.single.front();
  const Tuned& shown = shown_one(result.single);
  std::vector<ReportRun> runs{replay(shown, "")};
  if (answer.recommended) {
    // Only PyTorch's own strings are recommended, so there is no policy.
    const std::string& config = answer.rows[answer.recommended->row].options.config;
    if (!config.empty()) runs.push_back(replay(shown, config));
  }
  return report_page(runs, tune_json(result, costs));
}

}  // namespace cachalot::cli
