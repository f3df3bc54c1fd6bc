// SPDX-License-Identifier: MIT OR Apache-2.0
// Which options a program needs, told from its recorded runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "advice.h"
#include "driver_costs.h"
#include "jobs.h"
#include "option_search.h"
#include "option_string.h"
#include "smallest_capacity.h"
#include "trial.h"

namespace cachalot::cli {

struct TuneCall {
  std::vector<std::string> files;
  std::vector<std::string> held_back;  // runs that the advice is checked with
  std::vector<std::string> configs;    // strings to be looked at besides those that are always
  std::vector<std::string> policies;
  bool only_these = false;  // and no others
  uint64_t capacity = 0;    // of a device; 0: the recorded one
  uint64_t reserve = 0;     // of it, for others
  std::string release;      // "": the recorded one
  std::string costs = "H100";
  SearchLimits search;
  unsigned threads = 0;
  bool json = false;
  std::string output;  // the page; "": none
};

// The advice for one recorded run, or for several of one program.
struct Tuned {
  std::vector<const TunedRun*> runs;
  uint64_t device;  // bytes that are asked for
  uint64_t usable;  // what others leave of them
  std::vector<TunedRow> rows;
  std::optional<Recommendation> recommended;
  size_t strings_tried = 0;

  const TunedRow* row_of(const OptionString& options) const;  // null: they were not looked at
};

struct TuneResult {
  std::vector<TunedRun> runs;
  std::vector<Tuned> single;      // by run
  std::optional<Tuned> together;  // where there are several
  std::vector<HeldBack> held_back;
  bool is_complete = true;  // else the user has stopped it
};

// Throws Failure.
TuneResult tune(const TuneCall& call, const DriverCosts& costs);

}  // namespace cachalot::cli
