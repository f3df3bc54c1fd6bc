// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs scripts on the GPU through the cuda driver, then through the oracle with the addresses that
// the GPU gave, and compares every line.
//
// Exit status: 0 all is as expected, 1 a difference was found, 2 an input or the call is wrong.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "expected_file.h"
#include "gpu_run.h"
#include "held_streams.h"
#include "input_error.h"
#include "text_file.h"

namespace cachalot::gpu {
namespace {

using namespace differential;

struct Call {
  std::vector<std::string> files;
  std::string oracle;
  std::string release = "2.15";
  bool verbose = false;
};

struct Counts {
  uint64_t files = 0;
  uint64_t operations = 0;
  uint64_t lines = 0;
  uint64_t addresses = 0;
  uint64_t differences = 0;
  uint64_t faulty = 0;
  std::map<std::string, uint64_t> skipped;
  std::map<std::string, uint64_t> ended;
};

// With fewer queues than streams the work of one would stand in the way of another's.
void use_first_device() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  CUdevice device = 0;
  CUcontext context = nullptr;
  check(cuInit(0), "cuInit");
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

std::string ask_oracle(const Call& call, const std::string& script) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("cachalot-gpu-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string in = folder / "script.txt";
  const std::string out = folder / "expected.txt";
  std::ofstream(in) << script;
  std::filesystem::remove(out);
  const std::string command = "timeout 20 '" + call.oracle + "' " + in + " " + out;
  if (std::system(command.c_str()) != 0) throw InputError("the oracle failed: " + command);
  return read_text_file(out);
}

// What script_for_oracle adds.
bool is_inserted(const Operation& operation) {
  return operation.word == "addresses" || operation.word == "sync" || operation.word == "fabric" ||
         operation.word == "fabric_device";
}

void print_difference(const std::string& path, const Operation& operation, const Step& step,
                      size_t first, const Comparison& comparison) {
  std::printf("%s: differs at '%s'\n", path.c_str(), step.line.c_str());
  for (const std::string_view line : operation.expected)
    std::printf("    oracle %s\n", std::string(line).c_str());
  for (const Line& line : step.lines)
    std::printf("    gpu    %s\n", comparison.show(line, step.rules).c_str());
  std::printf("    first difference: line %zu\n", first + 1);
}

// False at the first difference.
bool compare(const std::string& path, const GpuRun& run, const ExpectedFile& expected,
             Counts* counts) {
  Comparison comparison;
  size_t next = 0;
  for (const Operation& operation : expected.operations()) {
    while (next < run.steps.size() && run.steps[next].is_left_out) next++;
    if (next == run.steps.size()) break;
    const Step& step = run.steps[next];
    if (operation.line != step.line && is_inserted(operation)) continue;
    if (operation.line != step.line)
      throw InputError("the oracle is at '" + std::string(operation.line) + "'", next + 1);
    next++;
    if (step.is_exempt) continue;
    const auto first = comparison.first_difference(operation.expected, step.lines, step.rules);
    if (first) {
      print_difference(path, operation, step, *first, comparison);
      return false;
    }
    counts->operations++;
    counts->lines += operation.expected.size();
    counts->addresses += step.addresses.size();
  }
  if (next < run.steps.size()) throw InputError("the oracle ended early", next + 1);
  return true;
}

void verify(const Call& call, const std::string& path, Counts* counts) {
  const std::vector<std::string> script = read_script(path);
  const int32_t release = call.release == "2.11" ? CACHALOT_RELEASE_2_11 : CACHALOT_RELEASE_2_15;
  const std::string reason = reason_to_skip(script, release);
  if (!reason.empty()) {
    counts->skipped[reason]++;
    return;
  }
  const GpuRun run = run_on_gpu(script, release);
  if (!run.ended_by.empty()) counts->ended[run.ended_by]++;
  const ExpectedFile expected(ask_oracle(call, script_for_oracle(run)));
  counts->files++;
  if (!compare(path, run, expected, counts)) {
    counts->differences++;
  } else if (call.verbose) {
    std::printf("%s: equal\n", path.c_str());
  }
}

void print(const Counts& counts) {
  for (const auto& [reason, count] : counts.skipped)
    std::printf("skipped, since the script %s: %lu\n", reason.c_str(), count);
  for (const auto& [defect, count] : counts.ended)
    std::printf("ended early by %s: %lu\n", defect.c_str(), count);
  std::printf(
      "%lu scripts, %lu operations, %lu lines compared, %lu addresses from the GPU, "
      "%lu differences, %lu faulty\n",
      counts.files, counts.operations, counts.lines, counts.addresses, counts.differences,
      counts.faulty);
}

int run(int argc, char** argv) {
  Call call;
  CLI::App app("Runs scripts on the GPU and through the oracle, and compares.");
  app.add_option("FILE", call.files, "scripts or expected files: plain, .gz or .xz")->required();
  app.add_option("--torch", call.release, "the oracle's release")
      ->check(CLI::IsMember({"2.11", "2.15"}));
  app.add_option("--oracle", call.oracle, "the oracle's program")->required();
  app.add_flag("-v,--verbose", call.verbose, "also names the scripts that are equal");
  CLI11_PARSE(app, argc, argv);
  use_first_device();
  Counts counts;
  for (const std::string& path : call.files) {
    try {
      verify(call, path, &counts);
    } catch (const InputError& error) {
      counts.faulty++;
      std::printf("%s:%zu: %s\n", path.c_str(), error.line(), error.what());
    } catch (const std::runtime_error& error) {  // of a call to the driver
      counts.faulty++;
      std::printf("%s: %s\n", path.c_str(), error.what());
    }
    std::fflush(stdout);
  }
  print(counts);
  return counts.differences > 0 ? 1 : counts.faulty > 0 ? 2 : 0;
}

}  // namespace
}  // namespace cachalot::gpu

int main(int argc, char** argv) {
  try {
    return cachalot::gpu::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verify_on_gpu: %s\n", error.what());
    return 2;
  }
}
