// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tune_report.h"

#include <cstdio>

#include "../numbers.h"
#include "../table.h"

namespace cachalot::cli {
namespace {

using Json = nlohmann::ordered_json;

uint64_t requested(const Tuned& tuned) {
  uint64_t most = 0;
  for (const TunedRun* run : tuned.runs) most = std::max(most, run->peak_requested());
  return most;
}

void print_title(const Tuned& tuned) {
  if (tuned.runs.size() > 1) {
    std::printf("%zu runs together\n", tuned.runs.size());
    return;
  }
  const TunedRun& run = *tuned.runs.front();
  std::printf("%s: %s events, PyTorch %s, %s requested at most\n", file_name(run.name()).c_str(),
              grouped(uint64_t{run.info().event_count}).c_str(),
              release_text(run.release()).c_str(), mebibytes(run.peak_requested()).c_str());
}

std::string marks(const Tuned& tuned, size_t i) {
  const bool is_recommended = tuned.recommended && tuned.recommended->row == i;
  return std::string(is_recommended ? ">" : " ") + (tuned.rows[i].is_on_front ? "*" : " ");
}

void print_rows(const Tuned& tuned) {
  Table table("lrrrrrrl");
  table.add({"", "smallest device", "of requested", "driver calls", "cost", "retries", "left",
             "options"});
  table.rule();
  for (size_t i = 0; i < tuned.rows.size(); i++) {
    const TunedRow& row = tuned.rows[i];
    table.add({marks(tuned, i), mebibytes(row.capacity.fits),
               ratio(row.capacity.fits, requested(tuned)), grouped(row.driver_calls),
               row.fits_device() ? milliseconds(row.cost_ms) : grouped(row.out_of_memory) + " fail",
               grouped(row.retries), gibibytes(row.left), row.options.name()});
  }
  table.print(stdout);
}

void print_recommendation(const Tuned& tuned) {
  if (!tuned.recommended) return;
  const Recommendation& advice = *tuned.recommended;
  const TunedRow& row = tuned.rows[advice.row];
  std::printf("\n  recommended: %s\n    %s\n", row.options.name().c_str(), advice.reason.c_str());
  const Variations& varied = advice.variations;
  if (varied.runs > 0)
    std::printf(
        "    of %u runs whose large sizes differ by up to 3 %%, %u finish with 2 %% more "
        "(defaults: %u)\n",
        varied.runs, varied.finished, varied.finished_by_default);
  for (const std::string& warning : advice.warnings) std::printf("    mind: %s\n", warning.c_str());
}

void print_one(const Tuned& tuned) {
  print_title(tuned);
  print_rows(tuned);
  print_recommendation(tuned);
  std::printf("\n");
}

void print_held_back(const std::vector<HeldBack>& rows) {
  for (const HeldBack& row : rows)
    std::printf(
        "held back, %s: %s requested, needs %s (%s), with the defaults %s (%s)\n",
        file_name(row.file).c_str(), mebibytes(row.requested).c_str(),
        mebibytes(row.recommended.fits).c_str(), ratio(row.recommended.fits, row.requested).c_str(),
        mebibytes(row.defaults.fits).c_str(), ratio(row.defaults.fits, row.requested).c_str());
}

Json row_json(const TunedRow& row, const std::string& release) {
  return {{"config", row.options.config},
          {"policy", row.options.policy},
          {"release", release},
          {"found_by_search", row.options.is_of_search},
          {"fits_bytes", row.capacity.fits},
          {"fails_bytes", row.capacity.fails},
          {"out_of_memory", row.out_of_memory},
          {"retries", row.retries},
          {"driver_calls", row.driver_calls},
          {"cost_ms", row.cost_ms},
          {"left_bytes", row.left},
          {"is_on_front", row.is_on_front}};
}

Json recommendation_json(const Tuned& tuned) {
  if (!tuned.recommended) return nullptr;
  const Recommendation& advice = *tuned.recommended;
  const OptionString& options = tuned.rows[advice.row].options;
  return {{"config", options.config},
          {"policy", options.policy},
          {"reason", advice.reason},
          {"warnings", advice.warnings},
          {"varied_runs", advice.variations.runs},
          {"varied_runs_finished", advice.variations.finished},
          {"varied_runs_finished_by_defaults", advice.variations.finished_by_default}};
}

Json tuned_json(const Tuned& tuned) {
  const std::string release = release_text(tuned.runs.front()->release());
  Json rows = Json::array();
  for (const TunedRow& row : tuned.rows) rows.push_back(row_json(row, release));
  Json json;
  if (tuned.runs.size() == 1) {
    json["file"] = tuned.runs.front()->name();
    json["events"] = tuned.runs.front()->info().event_count;
  }
  json["requested_bytes"] = requested(tuned);
  json["device_bytes"] = tuned.device;
  json["usable_bytes"] = tuned.usable;
  json["strings_tried"] = tuned.strings_tried;
  json["results"] = std::move(rows);
  json["recommended"] = recommendation_json(tuned);
  return json;
}

}  // namespace

void print_tuned(const TuneResult& result, const DriverCosts& costs) {
  for (const Tuned& tuned : result.single) print_one(tuned);
  if (result.together) print_one(*result.together);
  print_held_back(result.held_back);
  const Tuned& first = result.single.front();
  std::printf(
      "  Smallest device: the run finishes there, and on each larger one that was looked at in "
      "steps of at most\n"
      "  0.4 %%; it may fail on others, since fitting is not monotone. Driver calls, their cost "
      "(of the %s,\n"
      "  without waits for work), retries and what is left to others: on a device of %s%s.\n"
      "  * no other string is better in both capacity and cost; > recommended.\n",
      costs.name().c_str(), gibibytes(first.device).c_str(),
      first.usable < first.device ? " less the reserve" : "");
  if (!result.is_complete) std::printf("  Stopped: strings are missing.\n");
}

Json tune_json(const TuneResult& result, const DriverCosts& costs) {
  Json json;
  json["runs"] = Json::array();
  for (const Tuned& tuned : result.single) json["runs"].push_back(tuned_json(tuned));
  json["together"] = result.together ? tuned_json(*result.together) : Json(nullptr);
  json["held_back"] = Json::array();
  for (const HeldBack& row : result.held_back)
    json["held_back"].push_back({{"file", row.file},
                                 {"requested_bytes", row.requested},
                                 {"fits_bytes", row.recommended.fits},
                                 {"fits_bytes_of_defaults", row.defaults.fits}});
  json["costs"] = costs.name();
  json["is_complete"] = result.is_complete;
  return json;
}

void print_tuned_json(const TuneResult& result, const DriverCosts& costs) {
  const Json json = tune_json(result, costs);
  std::printf("%s\n", json.dump(1, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace cachalot::cli
