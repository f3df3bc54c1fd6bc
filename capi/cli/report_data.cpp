// SPDX-License-Identifier: MIT OR Apache-2.0
#include "report_data.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "contexts.h"
#include "failure.h"
#include "key_reports.h"
#include "numbers.h"
#include "packed.h"
#include "recording.h"
#include "run_facts.h"
#include "timeline.h"

namespace cachalot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMisses = 100;   // rows, by bytes and by cost
constexpr size_t kFailures = 50;  // rows

// "model-a/kv-cache" is a label within another.
ContextFrames outermost_first(uint64_t context, const ContextTexts& known) {
  const auto found = known.frames.find(context);
  if (found == known.frames.end())
    return context == 0 ? ContextFrames() : ContextFrames{"context " + hexadecimal(context)};
  const ContextFrames& frames = found->second;
  if (known.are_stacks || frames.size() > 1) return {frames.rbegin(), frames.rend()};
  ContextFrames parts;
  std::istringstream label(frames.front());
  for (std::string part; std::getline(label, part, '/');) parts.push_back(part);
  return parts;
}

// Numbers things in the order in which they are met first.
template <class Thing>
class Numbering {
 public:
  size_t operator()(const Thing& thing) {
    const auto [place, is_new] = numbers_.try_emplace(thing, things_.size());
    if (is_new) things_.push_back(thing);
    return place->second;
  }
  const std::vector<Thing>& things() const { return things_; }

 private:
  std::map<Thing, size_t> numbers_;
  std::vector<Thing> things_;
};

// Columns one after another, each with its name and length.
class ColumnWriter {
 public:
  NumberColumn& column(const std::string& name) {
    columns_.push_back({name, {}});
    return columns_.back().second;
  }

  Json index() const {
    Json rows = Json::array();
    for (const auto& [name, column] : columns_) rows.push_back({name, column.bytes().size()});
    return rows;
  }
  std::string bytes() const {
    std::string all;
    for (const auto& [name, column] : columns_) all += column.bytes();
    return all;
  }

 private:
  std::deque<std::pair<std::string, NumberColumn>> columns_;  // a column stays where it is
};

class RunWriter {
 public:
  RunWriter(const cachalot_trace* trace, const ReplayCall& call)
      : trace_(trace), call_(call), timeline_(timeline_of(trace, call)) {}

  ReportRun write(const std::string& file) {
    facts_ = {{"name", recording_name(file)}, {"file", file}};
    facts_.update(run_facts(trace_, call_, timeline_));
    write_kinds();
    write_blocks();
    write_ranges();
    write_times();
    write_contexts();
    write_requests();
    facts_["owners"] = owners_json();
    facts_["columns"] = columns_.index();
    return {std::move(facts_), columns_.bytes()};
  }

 private:
  void write_kinds() {
    NumberColumn& owner = columns_.column("kind_owner");
    NumberColumn& requested = columns_.column("kind_requested");
    NumberColumn& size = columns_.column("kind_size");
    NumberColumn& context = columns_.column("kind_context");
    contexts_(0);
    for (const BlockKind& kind : timeline_.kinds) {
      owner.add(owners_(kind.owner));
      requested.add(kind.requested);
      size.add(kind.size);
      context.add(contexts_(kind.context));
    }
    facts_["kind_count"] = timeline_.kinds.size();
  }

  // Blocks of one kind often lie where the one before did.
  void write_blocks() {
    NumberColumn& kind = columns_.column("block_kind");
    NumberColumn& begin = columns_.column("block_begin");
    NumberColumn& address = columns_.column("block_address");
    NumberColumn& freed = columns_.column("block_freed");
    NumberColumn& completed = columns_.column("block_completed");
    std::vector<cachalot_address> last(timeline_.kinds.size());
    uint64_t event = 0;
    for (const TimelineBlock& block : timeline_.blocks) {
      kind.add(block.kind);
      begin.add(block.begin - event);
      event = block.begin;
      address.add_signed(static_cast<int64_t>(block.address - last[block.kind]));
      last[block.kind] = block.address;
      freed.add(block.freed == kNever ? 0 : block.freed - block.begin + 1);
      completed.add(block.completed == kNever ? 0 : block.completed - block.freed + 1);
    }
    facts_["block_count"] = timeline_.blocks.size();
  }

  void write_ranges() {
    NumberColumn& owner = columns_.column("range_owner");
    NumberColumn& expandable = columns_.column("range_expandable");
    NumberColumn& begin = columns_.column("range_begin");
    NumberColumn& address = columns_.column("range_address");
    NumberColumn& size = columns_.column("range_size");
    NumberColumn& end = columns_.column("range_end");
    uint64_t event = 0;
    cachalot_address last = 0;
    for (const TimelineRange& range : timeline_.ranges) {
      owner.add(owners_(range.owner));
      expandable.add(range.is_expandable ? 1 : 0);
      begin.add(range.begin - event);
      event = range.begin;
      address.add_signed(static_cast<int64_t>(range.address - last));
      last = range.address;
      size.add(range.size);
      end.add(range.end == kNever ? 0 : range.end - range.begin + 1);
    }
    facts_["range_count"] = timeline_.ranges.size();
  }

  // Microseconds since the first event; an event without a time has that of the one before.
  void write_times() {
    const auto timed = std::find_if(events().begin(), events().end(),
                                    [](const auto& event) { return event.time_us >= 0; });
    facts_["has_time"] = timed != events().end();
    if (timed == events().end()) return;
    NumberColumn& time = columns_.column("event_time");
    int64_t last = timed->time_us;
    for (const cachalot_trace_event& event : events()) {
      const int64_t now = event.time_us < 0 ? last : event.time_us;
      time.add_signed(now - last);
      last = now;
    }
  }

  // Each context is the list of its frames, the outermost first, as numbers of texts.
  void write_contexts() {
    Numbering<std::string> texts;
    const ContextTexts known = context_texts(trace_, contexts_.things());
    Json contexts = Json::array();
    for (const uint64_t context : contexts_.things()) {
      Json row = Json::array();
      for (const std::string& frame : outermost_first(context, known)) row.push_back(texts(frame));
      contexts.push_back(std::move(row));
    }
    facts_["contexts_are"] = known.are_stacks ? "stacks" : "labels";
    facts_["contexts"] = std::move(contexts);
    facts_["texts"] = texts.things();
  }

  Json owners_json() const {
    Json owners = Json::array();
    for (const Owner& owner : owners_.things())
      owners.push_back({{"device", owner.device},
                        {"stream", stream_text(owner.stream)},
                        {"pool", pool_text(owner.pool)}});
    return owners;
  }

  // ---- Requests that the cache did not serve ----

  // The misses with the most bytes, and those that cost the recorded program the most.
  std::vector<TimelineMiss> costliest_misses() const {
    std::set<uint64_t> chosen;
    const auto choose = [&](auto value_of) {
      std::vector<const TimelineMiss*> sorted;
      for (const TimelineMiss& miss : timeline_.misses)
        if (!miss.has_failed && value_of(miss) > 0) sorted.push_back(&miss);
      std::stable_sort(sorted.begin(), sorted.end(),
                       [&](const auto* a, const auto* b) { return value_of(*a) > value_of(*b); });
      sorted.resize(std::min(sorted.size(), kMisses));
      for (const TimelineMiss* miss : sorted) chosen.insert(miss->event);
    };
    choose([](const TimelineMiss& miss) { return static_cast<int64_t>(miss.obtained); });
    choose([](const TimelineMiss& miss) { return miss.cost_ns; });
    std::vector<TimelineMiss> rows;
    for (const TimelineMiss& miss : timeline_.misses)
      if (chosen.count(miss.event) > 0) rows.push_back(miss);
    std::stable_sort(rows.begin(), rows.end(), [](const TimelineMiss& a, const TimelineMiss& b) {
      return std::pair(a.obtained, a.cost_ns) > std::pair(b.obtained, b.cost_ns);
    });
    return rows;
  }

  Json request_json(uint64_t index) {
    const cachalot_trace_event& event = events()[index];
    Json row{{"event", index},
             {"requested", event.size},
             {"owner", owners_(Owner{event.device, event.stream, event.pool})}};
    const auto& known = contexts_.things();
    const auto place = std::find(known.begin(), known.end(), event.context);
    row["context"] = place == known.end() ? 0 : place - known.begin();
    return row;
  }

  void write_requests() {
    std::vector<KeyRequest> keys{fragmented_request(timeline_, events())};
    facts_["fragmented"] = {{"event", keys[0].event}, {"report", 0}};
    Json misses = Json::array();
    for (const TimelineMiss& miss : costliest_misses()) {
      Json row = request_json(miss.event);
      row["obtained"] = miss.obtained;
      row["given_back"] = miss.given_back;
      row["cached"] = miss.cached;
      if (miss.cost_ns >= 0) row["cost_ns"] = miss.cost_ns;
      row["report"] = keys.size();
      keys.push_back(request_of(events()[miss.event], miss.event, false));
      misses.push_back(std::move(row));
    }
    facts_["miss_count"] =
        std::count_if(timeline_.misses.begin(), timeline_.misses.end(),
                      [](const TimelineMiss& miss) { return miss.obtained > 0; });
    facts_["misses"] = std::move(misses);
    facts_["failures"] = failures(&keys);
    write_reports(keys);
  }

  // Of the replay, and of the recorded run, whose failed requests a replay does not repeat.
  Json failures(std::vector<KeyRequest>* keys) {
    std::set<uint64_t> of_replay;
    for (const TimelineMiss& miss : timeline_.misses)
      if (miss.has_failed) of_replay.insert(miss.event);
    Json rows = Json::array();
    uint64_t count = 0;
    for (size_t i = 0; i < events().size(); i++) {
      const bool is_recorded = events()[i].action == CACHALOT_ACTION_OOM;
      if (!is_recorded && of_replay.count(i) == 0) continue;
      if (++count > kFailures) continue;
      Json row = request_json(i);
      row["is_recorded"] = is_recorded;
      row["report"] = keys->size();
      keys->push_back(request_of(events()[i], i, true));
      rows.push_back(std::move(row));
    }
    facts_["failure_count"] = count;
    return rows;
  }

  // The page tells who holds memory from the blocks.
  static Json without_holders(Json report) {
    report.erase("holders");
    return report;
  }

  // Null where there is none.
  void write_reports(const std::vector<KeyRequest>& keys) {
    Json reports = Json::array();
    for (const std::string& text : reports_of(trace_, call_, timeline_, keys))
      reports.push_back(text.empty() ? Json() : without_holders(Json::parse(text)));
    facts_["reports"] = std::move(reports);
  }

  const std::vector<cachalot_trace_event>& events() const { return events_; }

  const cachalot_trace* const trace_;
  const ReplayCall& call_;
  const Timeline timeline_;
  const std::vector<cachalot_trace_event> events_ = events_of(trace_);
  Json facts_;
  ColumnWriter columns_;
  Numbering<Owner> owners_;
  Numbering<uint64_t> contexts_;  // the first: none
};

}  // namespace

std::string recording_name(const std::string& file) {
  namespace fs = std::filesystem;
  fs::path name = file == "-" ? fs::path("standard input") : fs::path(file).filename();
  for (const char* end : {".gz", ".xz", ".csv", ".trace"})
    if (name.extension() == end) name = name.stem();
  return name.string();
}

ReportRun report_run(const cachalot_trace* trace, const std::string& file, const ReplayCall& call) {
  return RunWriter(trace, call).write(file);
}

}  // namespace cachalot::cli
