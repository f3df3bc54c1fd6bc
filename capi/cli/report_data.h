// SPDX-License-Identifier: MIT OR Apache-2.0
// A run as `cachalot report` puts it into a page (docs/report.md): what is short as JSON, the blocks and the memory
// that they lie in as packed columns of numbers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "run.h"

namespace cachalot::cli {

struct ReportRun {
  nlohmann::ordered_json facts;
  std::string columns;  // facts["columns"] says where each is; not compressed yet
};

// Throws Failure. file, name: what the page calls the recording and the run.
ReportRun report_run(const cachalot_trace* trace, const std::string& file, const std::string& name,
                     const ReplayCall& call);

}  // namespace cachalot::cli
