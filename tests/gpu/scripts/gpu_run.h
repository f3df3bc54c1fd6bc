// SPDX-License-Identifier: MIT OR Apache-2.0
// A script run on a GPU, and the script that makes the oracle meet the same device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comparison.h"
#include "transcript.h"

namespace cachalot::gpu {

// An operation and what the library did in it.
struct Step {
  std::string line;
  std::vector<differential::Line> lines;
  std::vector<uint64_t> addresses;  // that the device gave
  bool waited_for_all = false;      // the device finished all work on the way
  bool asked_for_captured_event = false;
  bool has_refused_fork = false;
  bool is_left_out = false;  // the oracle does not get it either
  bool is_exempt = false;    // the C interface differs on purpose
  differential::ErrorRules rules;
};

struct GpuRun {
  std::vector<Step> steps;
  std::string ended_by;  // why the script was not run to its end: a mended defect, ...
  int32_t fabric_create_code = 0;
  int32_t fabric_state = -1;
};

// The lines of a script, or those of an expected file without what is indented; without questions for
// numbers of its lines.
std::vector<std::string> read_script(const std::string& path);

// Why a script cannot run on a GPU ("it makes failures up"); empty if it can.
std::string reason_to_skip(const std::vector<std::string>& script, int32_t release);

// Throws InputError for what a real device takes otherwise than the oracle's. release:
// CACHALOT_RELEASE_*.
GpuRun run_on_gpu(const std::vector<std::string>& script, int32_t release);

// The same script with the addresses that the GPU gave.
std::string script_for_oracle(const GpuRun& run);

}  // namespace cachalot::gpu
