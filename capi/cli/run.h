// SPDX-License-Identifier: MIT OR Apache-2.0
// One recorded run, read and replayed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cachalot/cachalot.h"
#include "failure.h"

namespace cachalot::cli {

struct ReplayCall {
  std::vector<std::string> files;
  std::optional<std::string> config;
  std::string torch;
  cachalot_policy policy{};  // all 0: PyTorch's decisions
  uint64_t capacity = 0;
  double fraction = 0;
  bool expect = false;
  bool script = false;
  bool all_stats = false;
  bool brief = false;
  bool history = false;                // is kept, for a snapshot
  bool stop_at_out_of_memory = false;  // the replay ends at the first request that fails so
};

struct ReadCall {
  int64_t process = 0;                               // of a report of several; 0: there is only one
  std::function<void(std::string_view bytes)> copy;  // gets the trace as it is read; may be empty
  std::string behind_header;                         // lines that are read there too
};

struct DestroyTrace {
  void operator()(cachalot_trace* trace) const { cachalot_trace_destroy(trace); }
};
struct DestroyReplay {
  void operator()(cachalot_replay* replay) const { cachalot_replay_destroy(replay); }
};
using TraceHandle = std::unique_ptr<cachalot_trace, DestroyTrace>;
using ReplayHandle = std::unique_ptr<cachalot_replay, DestroyReplay>;

// A recorded statistic beside the replay's.
struct StatPair {
  std::string name;
  int64_t recorded;
  std::optional<int64_t> replayed;  // none: this release does not have it

  bool is_equal() const { return replayed && *replayed == recorded; }
};

struct Run {
  std::string file;
  TraceHandle trace;
  cachalot_trace_info info;
  ReplayHandle replay;
  cachalot_replay_result result;
  std::vector<StatPair> stats;
  double seconds = 0;  // of reading and replaying, unpacking left out

  uint64_t equal_events() const { return result.events - result.differing_events; }
  size_t equal_stats() const;
  bool is_equal() const { return result.differing_events == 0 && equal_stats() == stats.size(); }
};

// "2.11" as CACHALOT_RELEASE_2_11, and back; any other text as CACHALOT_RELEASE_DEFAULT.
int32_t release_of(std::string_view text);
std::string release_text(int32_t release);
// The last part of a path, for headings.
std::string file_name(const std::string& path);

// These throw Failure.
cachalot_trace_info info_of(const cachalot_trace* trace);
cachalot_replay_result result_of(const cachalot_replay* replay);
// Without progress and observer. The texts are the call's.
cachalot_replay_options replay_options(const ReplayCall& call);
// Calls see(event) for each event.
template <class See>
void for_each_event(const cachalot_trace* trace, See see) {
  const size_t count = info_of(trace).event_count;
  cachalot_trace_event event{};
  event.struct_size = sizeof event;
  for (size_t i = 0; i < count; i++) {
    check(cachalot_trace_get_event(trace, i, &event));
    see(event);
  }
}
// seconds: has added what it took, unpacking left out.
TraceHandle read_trace(const std::string& file, double* seconds, const ReadCall& call = {});
// text: a trace as a file has it.
TraceHandle parse_trace(std::string_view text);
// Sees what a replay's allocator did at an event of the trace (cachalot_replay_observer_fn). May throw.
using EntryObserver = std::function<void(cachalot_allocator* allocator, uint64_t event,
                                         const cachalot_trace_entry& entry)>;
ReplayHandle replay_trace(const cachalot_trace* trace, const ReplayCall& call,
                          const EntryObserver& observer = {});
Run replay_file(const std::string& file, const ReplayCall& call);
// To standard output.
void write_script(const std::string& file, const ReplayCall& call);

}  // namespace cachalot::cli
