// SPDX-License-Identifier: MIT OR Apache-2.0
// The page of `cachalot report` and `cachalot tune`: its markup, styles and scripts are part of the program (page/), the
// data goes in.
#pragma once

#include <string>
#include <vector>

#include "report_data.h"

namespace cachalot::cli {

// tune: what `cachalot tune --json` says; null of a report. Throws Failure.
std::string report_page(const std::vector<ReportRun>& runs,
                        const nlohmann::ordered_json& tune = nullptr);

}  // namespace cachalot::cli
