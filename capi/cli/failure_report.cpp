// SPDX-License-Identifier: MIT OR Apache-2.0
#include "failure_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "entries.h"
#include "failure.h"
#include "run.h"
#include "stack_report.h"

namespace cachalot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLines = 200;
constexpr size_t kPlaces = 20;

Json last_lines_of(const RecordingFollower& follower) {
  const std::string& text = follower.last_lines();
  Json lines = Json::array();
  size_t begin = text.size();
  for (size_t count = 0; begin > 0 && count < kLines; count++) {
    const size_t before = begin < 2 ? std::string::npos : text.rfind('\n', begin - 2);
    begin = before == std::string::npos ? 0 : before + 1;
  }
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Where the program has asked for what it has; nothing of a recording without stacks.
Json places_of(const RecordingFollower& follower, const cachalot_trace_event& failed) {
  Json places = Json::array();
  if (failed.context == 0) return places;
  double seconds = 0;
  const TraceHandle trace = read_trace(follower.path(), &seconds);
  const auto events = events_of(trace.get());
  const size_t count = std::min(events.size(), follower.events_in_file());
  for (const PlaceText& place : places_behind(trace.get(), events, count, kPlaces))
    places.push_back({{"bytes", place.bytes}, {"blocks", place.blocks}, {"stack", place.frames}});
  return places;
}

Json report_of(const RecordingFollower& follower, const cachalot_trace_event& failed,
               const Ledger& ledger) {
  Json report{{"process", follower.process()},
              {"command", follower.command()},
              {"time_us", failed.time_us},
              {"device", failed.device},
              {"call", entry_of(static_cast<char>(failed.entry)).requests},
              {"requested_bytes", failed.size},
              {"free_bytes", failed.address}};
  report["ledger"] = ledger_json(ledger);
  report["places"] = places_of(follower, failed);
  report["last_events"] = last_lines_of(follower);
  return report;
}

}  // namespace

std::string write_failure_report(const RecordingFollower& follower,
                                 const cachalot_trace_event& failed, const Ledger& ledger,
                                 uint64_t number) {
  std::string path = follower.path() + ".oom-" + std::to_string(number) + ".json";
  const std::string text =
      report_of(follower, failed, ledger).dump(1, ' ', false, Json::error_handler_t::replace) +
      "\n";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool is_written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int code = errno;
  if (file >= 0) close(file);
  if (!is_written) throw Failure(path + " cannot be written: " + std::strerror(code));
  return path;
}

}  // namespace cachalot::cli
