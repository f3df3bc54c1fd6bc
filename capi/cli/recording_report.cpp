// SPDX-License-Identifier: MIT OR Apache-2.0
#include "recording_report.h"

#include <algorithm>
#include <array>
#include <cinttypes>

#include "entries.h"
#include "failure.h"
#include "forecast.h"
#include "numbers.h"
#include "recording.h"
#include "run.h"
#include "stack_report.h"
#include "table.h"

namespace cachalot::cli {
namespace {

std::string duration(int64_t ns) { return milliseconds(static_cast<double>(ns) / 1e6); }

std::string seconds(int64_t us) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", static_cast<double>(us) / 1e6);
  return text;
}

class Report {
 public:
  Report(const cachalot_trace_info& info, const std::vector<cachalot_trace_event>& events,
         const RecordingSummary& summary, std::FILE* out)
      : info_(info), events_(events), summary_(summary), out_(out) {}

  void print(const std::string& file, const std::vector<std::string>& options) const {
    print_header(file);
    print_calls();
    print_memory();
    print_forecasts(options);
    print_remarks();
  }

 private:
  int64_t run_us() const { return summary_.end_us - summary_.begin_us; }
  std::string share(int64_t ns) const {
    return run_us() <= 0 ? "-"
                         : percent(static_cast<double>(ns) / 1e3 / static_cast<double>(run_us()));
  }

  void print_header(const std::string& file) const {
    Table table("ll");
    table.add({"program", info_.command});
    std::string process = std::to_string(info_.process_id);
    if (info_.parent_process_id != 0)
      process += ", forked from " + std::to_string(info_.parent_process_id);
    table.add({"process", process});
    if (info_.driver_version != 0)
      table.add({"driver", "CUDA " + std::to_string(info_.driver_version / 1000) + "." +
                               std::to_string(info_.driver_version % 1000 / 10)});
    table.add({"recording", file});
    table.add({"events", grouped(uint64_t{info_.event_count}) + " in " + seconds(run_us())});
    table.print(out_);
  }

  void add_row(Table* table, const char* name, const CallSum& sum) const {
    if (sum.calls == 0) return;
    table->add({name, grouped(sum.calls), duration(sum.cost_ns), share(sum.cost_ns),
                duration(sum.worst_ns), "at " + seconds(sum.worst_at_us - summary_.begin_us)});
    if (sum.wait_ns > 0)
      table->add({"  of it for work of the device", "", duration(sum.wait_ns), share(sum.wait_ns)});
  }

  // An allocator's recorder sees requests, and no calls of the program.
  void print_calls() const {
    if (summary_.requests.empty() && summary_.returns.empty()) return;
    const auto sum_of = [](const std::map<char, CallSum>& sums, char letter) {
      const auto found = sums.find(letter);
      return found == sums.end() ? CallSum{} : found->second;
    };
    Table table("lrrrrl");
    table.add({"call", "calls", "time", "of the run", "the longest"});
    table.rule();
    for (const EntryName& entry : kEntries) {
      add_row(&table, entry.requests, sum_of(summary_.requests, entry.letter));
      add_row(&table, entry.returns, sum_of(summary_.returns, entry.letter));
    }
    table.rule();
    table.add({"all", "", duration(summary_.cost_ns()), share(summary_.cost_ns())});
    std::fprintf(out_, "\n");
    table.print(out_);
  }

  void print_memory() const {
    Table table("lrl");
    table.add({"blocks at a time", mebibytes(summary_.block_peak), "as requested, at most"});
    if (summary_.other_peak > 0)
      table.add({"other memory at a time", mebibytes(summary_.other_peak),
                 "host, managed, arrays, of other processes"});
    if (summary_.refused > 0)
      table.add({"out of memory", grouped(summary_.refused), "requests that the driver refused"});
    std::fprintf(out_, "\n");
    table.print(out_);
  }

  void print_forecasts(const std::vector<std::string>& options) const {
    const CallSum& served = summary_.served_requests;
    if (served.calls == 0) return;
    std::fprintf(
        out_,
        "\n  What `cachalot run` would make of the %s calls of cuMemAlloc, which have %s at a "
        "time:\n",
        grouped(served.calls).c_str(), mebibytes(summary_.served_peak).c_str());
    Table table("lrrrrl");
    table.add({"options", "--free", "reserved peak", "driver calls", "time saved"});
    table.rule();
    const ForecastedProgram wait(info_, events_, summary_, FreeRule::kWait);
    const ForecastedProgram event(info_, events_, summary_, FreeRule::kEvent);
    for (const std::string& config : options) add_forecasts(&table, config, wait, event);
    table.print(out_);
  }

  void add_forecasts(Table* table, const std::string& config, const ForecastedProgram& program,
                     const ForecastedProgram& at_worst) const {
    const std::string name = config.empty() ? "defaults" : config;
    const Forecast wait = program.forecast(config);
    const Forecast worst = at_worst.forecast(config);
    add_forecast(table, name, "wait", mebibytes(wait.peak_reserved), wait, FreeRule::kWait);
    std::string range = mebibytes(wait.peak_reserved);
    if (worst.peak_reserved != wait.peak_reserved) range += " to " + mebibytes(worst.peak_reserved);
    add_forecast(table, "", "event", range, worst, FreeRule::kEvent);
  }

  void add_forecast(Table* table, const std::string& name, const char* rule,
                    const std::string& reserved, const Forecast& forecast, FreeRule free) const {
    const int64_t saved = saved_ns(summary_, forecast, free);
    // A wait that was not measured counts as the driver's own work.
    const bool is_most = free == FreeRule::kWait && summary_.served_returns.unmeasured_waits > 0;
    table->add(
        {name, rule, reserved, grouped(forecast.driver_calls),
         (is_most ? "at most " : "") + duration(saved) + ", " + share(saved) + " of the run",
         forecast.out_of_memory == 0 ? "" : grouped(forecast.out_of_memory) + " out of memory"});
  }

  void print_remarks() const {
    if (!summary_.is_whole)
      std::fprintf(out_,
                   "\n  The process did not end by exit(): it was killed, ended by _exit or exec, "
                   "or still runs.\n");
    if (summary_.begins_with_live)
      std::fprintf(out_,
                   "\n  What was before is not in the recording, which may take so many bytes only "
                   "(--keep).\n");
    if (summary_.lost > 0)
      std::fprintf(out_, "\n  %s events are lost: there was no room for the file.\n",
                   grouped(summary_.lost).c_str());
    if (summary_.exported > 0)
      std::fprintf(out_, "\n  It gave memory to other processes %s times.\n",
                   grouped(summary_.exported).c_str());
  }

  const cachalot_trace_info& info_;
  const std::vector<cachalot_trace_event>& events_;
  const RecordingSummary& summary_;
  std::FILE* const out_;
};

}  // namespace

std::vector<std::string> with_defaults(const std::vector<std::string>& options) {
  std::vector<std::string> all{""};
  all.insert(all.end(), options.begin(), options.end());
  return all;
}

bool is_recording_of_program(const cachalot_trace* trace) {
  const cachalot_trace_info info = info_of(trace);
  if (info.format < 2) return false;
  const auto events = events_of(trace);
  return *info.command != '\0' || std::any_of(events.begin(), events.end(),
                                              [](const auto& event) { return event.entry != 0; });
}

void print_recording(const cachalot_trace* trace, const std::string& file,
                     const std::vector<std::string>& options, size_t places, std::FILE* out) {
  const cachalot_trace_info info = info_of(trace);
  const auto events = events_of(trace);
  const RecordingSummary summary = summarize(info, events);
  Report(info, events, summary, out).print(file, options);
  if (places > 0) print_places(trace, events, summary, places, out);
}

}  // namespace cachalot::cli
