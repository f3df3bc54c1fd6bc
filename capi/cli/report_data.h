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

// "kv_server" of "tests/traces/kv_server.csv.xz".
std::string recording_name(const std::string& file);

// file: the recording that the trace was read from. Throws Failure.
ReportRun report_run(const cachalot_trace* trace, const std::string& file, const ReplayCall& call);

}  // namespace cachalot::cli
