// SPDX-License-Identifier: MIT OR Apache-2.0
#include "gpu_run.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "gpu_script_device.h"
#include "operations.h"
#include "script.h"
#include "script_setup.h"
#include "text_file.h"
#include "watchdog.h"

namespace cachalot::gpu {

using namespace differential;

namespace {

std::string_view first_word(std::string_view line) { return line.substr(0, line.find(' ')); }

// The real device fails when it wants to.
constexpr std::array<std::string_view, 7> kMadeUp = {
    "fail", "error", "pending_error", "fabric", "fabric_device", "process", "own_fail"};

bool needs_several_devices(std::string_view line) {
  return first_word(line) == "device" && std::count(line.begin(), line.end(), ' ') >= 3 &&
         line.substr(line.rfind(' ')) != " 1";
}

// Numbers of script lines, which differ between the two scripts: they are not asked for.
std::string without_line_numbers(const std::string& line) {
  if (first_word(line) == "context_of") return "";
  const size_t word = first_word(line) == "log" ? line.find(" context") : line.npos;
  return word == line.npos ? line : line.substr(0, word) + line.substr(word + 8);
}

// Nobody tells the allocator of such a capture, so that it does what ends a real one.
bool has_unmarked_capture(const std::vector<std::string>& script) {
  for (size_t i = 0; i < script.size(); i++) {
    const bool is_marked = i + 1 < script.size() && script[i + 1] == "capture_mark";
    if (first_word(script[i]) == "capture" && !is_marked) return true;
  }
  return false;
}

// A word of a line, counted from 0, as a stream.
bool names_default_stream(std::string_view line, int index) {
  Arguments arguments(line);
  for (int i = 1; i < index; i++) arguments.word();
  return arguments.hex() == 0;
}

bool captures_default_stream(const std::vector<std::string>& script) {
  return std::any_of(script.begin(), script.end(), [](std::string_view line) {
    if (first_word(line) == "capture") return names_default_stream(line, 1);
    return first_word(line) == "fork" && names_default_stream(line, 2);
  });
}

std::vector<Operation> operations_of(const std::vector<std::string>& script) {
  std::vector<Operation> operations;
  for (size_t i = 0; i < script.size(); i++)
    operations.push_back({script[i], first_word(script[i]), {}, i + 1});
  return operations;
}

// The device's part in a step.
void take_traces(GpuScriptDevice& device, Step* step) {
  step->addresses = device.driver().take_addresses();
  step->waited_for_all = device.driver().take_finished_all();
  step->asked_for_captured_event = device.driver().take_captured_event();
  step->has_refused_fork = device.streams().take_refused_fork();
  step->is_left_out = device.take_left_out_work();
}

Step run_operation(Script& script, GpuScriptDevice& device, const Operation& operation,
                   const OperationKind& kind) {
  script.begin_operation(operation.line_number, {});
  at_line(operation.line_number, [&] {
    if (kind.run == nullptr || operation.word == "addresses") return;
    if (kind.stage == Stage::kAllocator && !script.start()) return;
    Arguments arguments(operation.line);
    kind.run(script, arguments);
  });
  script.end_operation();
  Step step;
  step.line = operation.line;
  step.lines = script.transcript().lines();
  take_traces(device, &step);
  step.is_left_out |= operation.word == "addresses";
  step.is_exempt = script.is_operation_exempt();
  step.rules = {script.log.whole_text, script.is_error_text_exempt()};
  return step;
}

// "D reserve 1211105280 error 1".
bool asks_for_odd_reservation(std::string_view line) {
  constexpr uint64_t kPage = uint64_t{2} << 20;
  if (!line.starts_with("D reserve ") || !line.ends_with(" error 1")) return false;
  Arguments arguments(line);
  arguments.word();
  return arguments.size() % kPage != 0;
}

// What a real device refuses and the oracle's does not; empty if there is nothing of that kind. With
// caching off, or by a tiny reserve, the device is asked for 0 bytes; with an odd size of large
// segments for a reservation that is no multiple of its pages.
std::string refusal_in(const Step& step) {
  if (step.asked_for_captured_event) return "a question for an event of a capture, which ends it";
  if (step.has_refused_fork) return "a fork onto a stream with work, or of another capture";
  for (const Line& line : step.lines) {
    if (line.text.starts_with("D malloc 0 ") || line.text.starts_with("D reserve 0 "))
      return "a request of 0 bytes, which the device refuses";
    if (asks_for_odd_reservation(line.text))
      return "a reservation of no whole pages, which the device refuses";
  }
  return "";
}

const OperationKind& kind_of(const Operation& operation, int32_t release) {
  const OperationKind* kind = find_operation_kind(operation.word);
  if (kind == nullptr || kind->since > release)
    throw InputError("operation '" + std::string(operation.word) + "' is not known",
                     operation.line_number);
  return *kind;
}

}  // namespace

std::vector<std::string> read_script(const std::string& path) {
  std::vector<std::string> script;
  std::istringstream text(read_text_file(path));
  for (std::string line; std::getline(text, line);) {
    const bool is_operation =
        !line.empty() && line.front() != ' ' && line.front() != '#' && line != ExpectedFile::kEnd;
    const std::string kept = is_operation ? without_line_numbers(line) : "";
    if (!kept.empty()) script.push_back(kept);
  }
  script.emplace_back(ExpectedFile::kEnd);
  return script;
}

std::string reason_to_skip(const std::vector<std::string>& script, int32_t release) {
  if (release >= CACHALOT_RELEASE_2_15 && has_unmarked_capture(script))
    return "has a capture that is not marked";
  for (const std::string& line : script) {
    const std::string_view word = first_word(line);
    if (std::find(kMadeUp.begin(), kMadeUp.end(), word) != kMadeUp.end())
      return "makes failures up ('" + std::string(word) + "')";
    if (needs_several_devices(line)) return "needs several devices";
    if (word == "checkpoint" || word == "restore" || word == "share" || word == "import")
      return "needs '" + std::string(word) + "'";
    if (line.find("PYTORCH_HIP_ALLOC_CONF") != line.npos)
      return "needs a variable that is not read";
    if (line.find("cudaMallocAsync") != line.npos) return "is of the other backend";
  }
  return "";
}

GpuRun run_on_gpu(const std::vector<std::string>& script_lines, int32_t release) {
  const std::vector<Operation> operations = operations_of(script_lines);
  ScriptSetup setup = read_setup(operations);
  setup.library.release = release;
  GpuScriptDevice* device = nullptr;
  Script script(setup.library, [&](Transcript& transcript) {
    auto made = std::make_unique<GpuScriptDevice>(transcript, CudaOptions{setup.memory},
                                                  !captures_default_stream(script_lines));
    device = made.get();
    return made;
  });
  GpuRun run;
  Watchdog watchdog(device->streams());
  for (const Operation& operation : operations) {
    watchdog.begin();
    const OperationKind& kind = kind_of(operation, release);
    Step step = run_operation(script, *device, operation, kind);
    if (watchdog.has_bitten())
      throw InputError("the device waits for the script's work", operation.line_number);
    if (run.ended_by = refusal_in(step); !run.ended_by.empty()) break;
    if (!script.mended().empty()) run.ended_by = script.mended();
    if (script.is_rest_exempt()) run.ended_by = "an exempt rest";
    if (!run.ended_by.empty()) break;
    run.steps.push_back(std::move(step));
  }
  run.fabric_create_code = device->driver().fabric_create_code();
  run.fabric_state = device->driver().fabric_state_seen();
  const std::string fault = script.finish();
  if (!fault.empty()) throw InputError(fault);
  return run;
}

std::string script_for_oracle(const GpuRun& run) {
  std::ostringstream text;
  text << "fabric " << run.fabric_create_code << "\nfabric_device " << run.fabric_state << "\n";
  for (const Step& step : run.steps) {
    if (step.is_left_out || step.line == ExpectedFile::kEnd) continue;
    if (!step.addresses.empty()) {
      text << "addresses" << std::hex;
      for (const uint64_t address : step.addresses) text << " " << address;
      text << std::dec << "\n";
    }
    text << step.line << "\n";
    if (step.waited_for_all) text << "sync\n";
  }
  return text.str();
}

}  // namespace cachalot::gpu
