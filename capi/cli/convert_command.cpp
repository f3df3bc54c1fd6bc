// SPDX-License-Identifier: MIT OR Apache-2.0
#include "convert_command.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <memory>
#include <string_view>

#include "event_table.h"
#include "failure.h"
#include "output.h"
#include "perfetto.h"
#include "replay_command.h"
#include "stack_labels.h"

namespace cachalot::cli {
namespace {

enum class Format { kTrace, kPickle, kPerfetto, kTable };

struct FormatName {
  std::string_view suffix;
  Format format;
};

// The first that fits counts.
constexpr std::array<FormatName, 6> kSuffixes{{{".table.csv", Format::kTable},
                                               {".trace", Format::kTrace},
                                               {".csv", Format::kTrace},
                                               {".pickle", Format::kPickle},
                                               {".pkl", Format::kPickle},
                                               {".json", Format::kPerfetto}}};

Format format_of(const ConvertCall& call) {
  if (call.to == "trace") return Format::kTrace;
  if (call.to == "pickle") return Format::kPickle;
  if (call.to == "perfetto") return Format::kPerfetto;
  if (call.to == "table") return Format::kTable;
  std::string_view name = call.output;
  if (name.ends_with(".gz") || name.ends_with(".xz")) name.remove_suffix(3);
  for (const FormatName& known : kSuffixes)
    if (name.ends_with(known.suffix)) return known.format;
  throw Failure("the name " + call.output +
                " tells no format: --to says which, trace, pickle, perfetto or table");
}

// Of a recording in format 2 the room behind the last line is left out.
class TraceCopy {
 public:
  explicit TraceCopy(Output* output) : output_(*output) {}

  void add(std::string_view bytes) {
    const size_t end = bytes.find('\0');
    if (!has_ended_) output_.write(bytes.substr(0, end));
    has_ended_ |= end != std::string_view::npos;
  }

 private:
  Output& output_;
  bool has_ended_ = false;
};

struct DestroySnapshot {
  void operator()(cachalot_snapshot* snapshot) const { cachalot_snapshot_destroy(snapshot); }
};

// No exception may pass through the library, so it waits here.
struct Writing {
  Output* output;
  std::exception_ptr failure;
};

int32_t write_output(void* user_data, const void* data, size_t size) {
  auto& writing = *static_cast<Writing*>(user_data);
  try {
    writing.output->write({static_cast<const char*>(data), size});
    return 0;
  } catch (...) {
    writing.failure = std::current_exception();
    return 1;
  }
}

// Another run is asked for. The device's memory and its limit are facts of the recorded one, which it may not tell.
bool has_wishes(const ReplayCall& call) {
  return call.config || !call.torch.empty() || call.policy.policy != CACHALOT_POLICY_DEFAULT;
}

// Null: the trace is not a whole history, or it is not what the replay does.
ReplayHandle replay_exactly(const cachalot_trace* trace, ReplayCall call) {
  call.expect = true;
  try {
    ReplayHandle replay = replay_trace(trace, call);
    return result_of(replay.get()).differing_events == 0 ? std::move(replay) : nullptr;
  } catch (const Failure&) {
    return nullptr;  // the other replay says why, if it fails too
  }
}

using SnapshotHandle = std::unique_ptr<cachalot_snapshot, DestroySnapshot>;

SnapshotHandle snapshot_of(const cachalot_replay* replay) {
  cachalot_snapshot* snapshot = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  check(cachalot_replay_snapshot(replay, &snapshot, &error), error);
  return SnapshotHandle(snapshot);
}

int32_t append_text(void* user_data, const void* data, size_t size) {
  static_cast<std::string*>(user_data)->append(static_cast<const char*>(data), size);
  return 0;
}

bool has_segments(const cachalot_trace* trace) {
  bool has = false;
  for_each_event(trace, [&has](const cachalot_trace_event& event) {
    has |= event.action == CACHALOT_ACTION_SEGMENT_ALLOC ||
           event.action == CACHALOT_ACTION_SEGMENT_MAP;
  });
  return has;
}

// What this allocator does with the recording. Null: it cannot be replayed, and nobody asked for it.
TraceHandle history_of_replay(const cachalot_trace* trace, ReplayCall call) {
  call.history = true;
  try {
    const ReplayHandle replay = replay_trace(trace, call);
    const SnapshotHandle snapshot = snapshot_of(replay.get());
    std::string text;
    cachalot_error error = CACHALOT_ERROR_INIT;
    check(cachalot_trace_write(snapshot.get(), nullptr, "", append_text, &text, &error), error);
    return parse_trace(text);
  } catch (const Failure&) {
    if (has_wishes(call)) throw;
    return nullptr;
  }
}

// A recording of a program tells of no segments: a replay has some.
void write_timeline(const cachalot_trace* trace, const ReplayCall& call, Output* output) {
  const bool is_replayed = has_wishes(call) || !has_segments(trace);
  const TraceHandle replayed = is_replayed ? history_of_replay(trace, call) : nullptr;
  write_perfetto(trace, replayed.get(), output);
}

// A snapshot is of an allocator, so one goes through the recording. Where that does what was recorded, the snapshot is
// the recorded one; else it shows what this allocator would have done.
void write_pickle(const cachalot_trace* trace, ReplayCall call, Output* output) {
  call.history = true;
  ReplayHandle replay = has_wishes(call) ? nullptr : replay_exactly(trace, call);
  if (!replay) {
    replay = replay_trace(trace, call);
    std::fprintf(stderr, "cachalot: the addresses and segments are those of a replay\n");
  }
  const SnapshotHandle snapshot = snapshot_of(replay.get());
  Writing writing{output, nullptr};
  cachalot_error error = CACHALOT_ERROR_INIT;
  const cachalot_status status =
      cachalot_snapshot_write_pickle(snapshot.get(), nullptr, write_output, &writing, &error);
  if (writing.failure) std::rethrow_exception(writing.failure);
  check(status, error);
}

void convert(const ConvertCall& call) {
  const Format format = format_of(call);
  ReadCall reading{.process = call.process};
  double seconds = 0;
  std::unique_ptr<Output> output;
  std::unique_ptr<TraceCopy> copy;
  if (format == Format::kTrace) {
    output = std::make_unique<Output>(call.output);
    copy = std::make_unique<TraceCopy>(output.get());
    reading.copy = [&copy](std::string_view bytes) { copy->add(bytes); };
  }
  TraceHandle trace = read_trace(call.input, &seconds, reading);
  if (format == Format::kPickle && call.input != "-") {
    // Frames of stacks get names, which takes another reading.
    reading.behind_header = labels_of_stacks(trace.get());
    if (!reading.behind_header.empty()) trace = read_trace(call.input, &seconds, reading);
  }
  if (!output) output = std::make_unique<Output>(call.output);
  if (format == Format::kPickle) write_pickle(trace.get(), call.replay, output.get());
  if (format == Format::kPerfetto) write_timeline(trace.get(), call.replay, output.get());
  if (format == Format::kTable) write_event_table(trace.get(), output.get());
  output->finish();
}

}  // namespace

void add_convert_command(CLI::App* app, ConvertCall* call) {
  CLI::App* const convert = app->add_subcommand(
      "convert", "Convert a recording for another program: PyTorch's memory_viz, Perfetto, tables");
  convert
      ->add_option("INPUT", call->input,
                   "A trace, a snapshot of PyTorch's (.pickle), a log of RMM's, a report of Nsight "
                   "Systems as SQLite; - is standard input")
      ->required();
  convert
      ->add_option("-o,--output", call->output,
                   "The file to write; .gz and .xz are packed, - is standard output")
      ->required();
  convert
      ->add_option(
          "--to", call->to,
          "Its format [by its name: .csv a trace, .pickle, .json for Perfetto, .table.csv]")
      ->check(CLI::IsMember({"trace", "pickle", "perfetto", "table"}));
  convert
      ->add_option("--process", call->process,
                   "Whose memory, of a report that has several processes")
      ->check(CLI::PositiveNumber);
  add_replay_options(convert, &call->replay);
}

int run_convert_command(const ConvertCall& call) {
  try {
    convert(call);
    return kAsExpected;
  } catch (const Failure& failure) {
    complain(call.input, failure);
    return kFailed;
  }
}

}  // namespace cachalot::cli
