// SPDX-License-Identifier: MIT OR Apache-2.0
#include "record_command.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cachalot/cachalot.h"
#include "failure.h"
#include "launch.h"
#include "line_file.h"
#include "live.h"
#include "numbers.h"
#include "options_check.h"
#include "proxy_folder.h"
#include "recording_report.h"
#include "run.h"

namespace cachalot::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPlacesOfARun = 5;
constexpr const char* kUsualPlace = "127.0.0.1:9464";
constexpr uint64_t kUsualBytes = uint64_t{64} << 20;
constexpr uint64_t kLeastBytes = uint64_t{2} << 20;

// Programs that the program starts may be in other folders. An earlier recording of the name is kept beside.
std::string output_path(const RecordCall& call, const std::string& program) {
  const std::string name =
      call.output.empty() ? fs::path(program).filename().string() + "-%p.trace" : call.output;
  const fs::path path = fs::absolute(name);
  std::error_code error;
  if (!fs::is_directory(path.parent_path(), error))
    throw Failure(path.parent_path().string() + " is no folder");
  if (fs::is_regular_file(path, error)) fs::rename(path, path.string() + ".old");
  return path;
}

void print_recordings(const std::vector<std::string>& paths, const RecordCall& call) {
  if (paths.empty())
    return tell_user(
        "nothing is recorded: no process asked the CUDA driver for memory, or one opened "
        "the driver by its path (--audit)");
  for (const std::string& path : paths) {
    std::fprintf(stderr, "\n");
    try {
      double seconds = 0;
      const TraceHandle trace = read_trace(path, &seconds);
      print_recording(trace.get(), path, with_defaults(call.options),
                      call.frames > 0 ? kPlacesOfARun : 0, stderr);
    } catch (const std::exception& failure) {  // the program's exit code is what counts
      tell_user(path + ": " + failure.what());
    }
  }
}

uint64_t bytes_to_keep(const RecordCall& call) {
  if (call.keep_bytes == 0) return call.is_live() ? kUsualBytes : 0;
  if (call.keep_bytes < kLeastBytes)
    throw Failure("--keep " + std::to_string(call.keep_bytes) + ": at least " +
                  mebibytes(kLeastBytes));
  return call.keep_bytes;
}

std::unique_ptr<Live> make_live(const RecordCall& call, const LineFile& list) {
  auto live = std::make_unique<Live>(call.listen.empty() ? kUsualPlace : call.listen,
                                     [&list] { return list.lines(); });
  tell_user("what the program holds: " + live->url() + "/ and " + live->url() + "/metrics");
  return live;
}

}  // namespace

void add_record_command(CLI::App* app, RecordCall* call) {
  CLI::App* const record = app->add_subcommand(
      "record",
      "Start any CUDA program, unchanged, and record what memory it asks the driver for: cachalot "
      "record [OPTIONS] -- PROGRAM [ARGUMENTS]...");
  record->prefix_command();
  record->add_option("-o,--output", call->output,
                     "File of the recording; %p in it is the process [PROGRAM-%p.trace]");
  record->add_option("--try", call->options, kTryHelp)->allow_extra_args(false);
  record->add_flag("--audit", call->audit,
                   "Also find programs that open the driver by its path, like Numba's");
  record->add_flag("--no-waits", call->no_waits,
                   "Do not measure how much of a free is the wait for the device");
  record
      ->add_option("--stacks", call->frames,
                   "Also record where in the program each request is made: so many frames")
      ->check(CLI::Range(1, 128));
  record->add_flag("--live", call->live,
                   "Serve what the program holds by HTTP while it runs: /metrics for Prometheus, "
                   "/ledger as JSON, / as text; report each request that is refused");
  record->add_option("--listen", call->listen, "HOST:PORT of it [127.0.0.1:9464]");
  record
      ->add_option("--keep", call->keep_bytes,
                   "Bytes that a recording may take, like 64MiB; the oldest events go [all; with "
                   "--live 64MiB]")
      ->transform(CLI::AsSizeValue(false));
  record->add_flag("-q,--quiet", call->quiet, "Show no tables at the end");
  record->footer("The exit code is the program's; 125 if it could not be recorded.");
  call->command = record;
}

int run_record_command(const RecordCall& call) {
  const std::vector<std::string> program = program_of(call.program, *call.command);
  if (is_disabled()) return launch_as_it_is(program);
  for (const std::string& options : call.options) check_options(options, {});
  const LineFile list;
  auto environment = proxy_environment(proxy_folder(), call.audit);
  environment["CACHALOT_RECORD"] = output_path(call, program.front());
  environment["CACHALOT_RECORD_LIST"] = list.path();
  if (call.no_waits) environment["CACHALOT_RECORD_WAITS"] = "0";
  const uint64_t keep = bytes_to_keep(call);
  if (keep != 0) environment["CACHALOT_RECORD_KEEP"] = std::to_string(keep);
  if (call.frames != 0) environment["CACHALOT_RECORD_STACKS"] = std::to_string(call.frames);
  const auto live = call.is_live() ? make_live(call, list) : nullptr;
  const Launched launched = launch(program, environment, [&] {
    if (live) live->start();
  });
  if (launched.error == 0 && !call.quiet) print_recordings(list.lines(), call);
  return launched.exit_code;
}

}  // namespace cachalot::cli
