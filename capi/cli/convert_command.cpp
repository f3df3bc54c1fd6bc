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

bool is_equal(const cachalot_replay* replay) {
  cachalot_replay_result result{};
  result.struct_size = sizeof result;
  check(cachalot_replay_get_result(replay, &result));
  return result.differing_events == 0;
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
    return is_equal(replay.get()) ? std::move(replay) : nullptr;
  } catch (const Failure&) {
    return nullptr;  // the other replay says why, if it fails too
  }
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
  cachalot_snapshot* taken = nullptr;
  cachalot_error error = CACHALOT_ERROR_INIT;
  check(cachalot_replay_snapshot(replay.get(), &taken, &error), error);
  const std::unique_ptr<cachalot_snapshot, DestroySnapshot> snapshot(taken);
  Writing writing{output, nullptr};
  const cachalot_status status =
      cachalot_snapshot_write_pickle(taken, nullptr, write_output, &writing, &error);
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
  if (format == Format::kPerfetto) write_perfetto(trace.get(), output.get());
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
