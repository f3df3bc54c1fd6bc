// SPDX-License-Identifier: MIT OR Apache-2.0
// The page of `cachalot report`: its markup, styles and scripts are part of the program (page/), the data goes in.
#pragma once

#include <string>
#include <vector>

#include "report_data.h"

namespace cachalot::cli {

// Throws Failure.
std::string report_page(const std::vector<ReportRun>& runs);

}  // namespace cachalot::cli
