// SPDX-License-Identifier: MIT OR Apache-2.0
// Replays scripts with one driver call failing, again and again, another call each time: with a
// driver's error, and calls that obtain memory with "out of memory" too.
//
//   cachalot_verify_faults [--torch 2.11|2.15] [--calls N] FILE...
//
// Nothing is compared with the reference. What has to hold: no failure is internal or without a
// text, the auditor finds nothing, the rest of the script goes on, and in the end everything is
// given back, descriptors too. An operation that shares memory or opens another process's changes
// nothing where it fails, and can be repeated. Of a script with more calls than N, N are chosen
// that lie evenly.
//
// Exit status: 0 all holds, 1 something does not, 2 the call is wrong.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "expected_file.h"
#include "input_error.h"
#include "operations.h"
#include "script_setup.h"
#include "text_file.h"

namespace cachalot::differential {
namespace {

constexpr int32_t kDriverError = 700;
constexpr size_t kOperationsBetweenAudits = 64;

// A script's device of whose calls one fails.
class FaultyDevice final : public ScriptDevice {
 public:
  using ScriptDevice::ScriptDevice;

  cachalot_status create_driver(cachalot_driver** out_driver, cachalot_error* error) override;

  // number: from 1 on; 0: none. Before the first call.
  void fail_call(size_t number, int32_t code) {
    failing_ = number;
    code_ = code;
  }
  bool has_failed() {
    const Locked lock(*this);
    return failing_ != 0 && obtains_.size() >= failing_;
  }
  // From now on nobody comes back for what is not given back.
  void begin_end() {
    const Locked lock(*this);
    is_ending_ = true;
  }
  // The call that failed would have given something back, which is still there.
  bool keeps_something() {
    const Locked lock(*this);
    return keeps_something_;
  }
  // Calls that only look at the state do not count.
  void set_counting(bool counts) {
    const Locked lock(*this);
    is_counting_ = counts;
  }
  // For each call whether it obtains memory. After the end, when no thread calls any more.
  const std::vector<bool>& calls() const { return obtains_; }

  int32_t due(bool obtains, bool gives_back) {
    const Locked lock(*this);
    if (!is_counting_) return CACHALOT_DRIVER_SUCCESS;
    obtains_.push_back(obtains);
    if (obtains_.size() != failing_) return CACHALOT_DRIVER_SUCCESS;
    keeps_something_ = gives_back || is_ending_;
    return code_;
  }

 private:
  std::vector<bool> obtains_;
  size_t failing_ = 0;
  int32_t code_ = 0;
  bool is_counting_ = true;
  bool is_ending_ = false;
  bool keeps_something_ = false;
};

using Ops = cachalot_device_ops;
template <auto kMember>
struct Named {};
template <auto kMember, auto... kOthers>
inline constexpr bool kIsOneOf = (std::is_same_v<Named<kMember>, Named<kOthers>> || ...);

template <auto kMember>
struct Wrapped;
template <typename... Args, int32_t (*Ops::*kMember)(void*, int32_t, Args...)>
struct Wrapped<kMember> {
  static int32_t call(void* self, int32_t device, Args... args) {
    static const Ops plain = ScriptDevice::driver_functions();
    auto& faulty = static_cast<FaultyDevice&>(*static_cast<ScriptDevice*>(self));
    constexpr bool kObtains = kIsOneOf<kMember, &Ops::allocate, &Ops::create, &Ops::pool_allocate,
                                       &Ops::host_allocate, &Ops::import_handle, &Ops::ipc_open>;
    constexpr bool kGivesBack = kIsOneOf<kMember, &Ops::release, &Ops::unmap, &Ops::unreserve,
                                         &Ops::event_destroy, &Ops::host_free, &Ops::ipc_close>;
    if (const int32_t code = faulty.due(kObtains, kGivesBack)) return code;
    return (plain.*kMember)(self, device, args...);
  }
};

template <auto... kMembers>
void wrap(Ops& ops) {
  const auto one = [](auto& function, auto wrapped) {
    if (function != nullptr) function = wrapped;
  };
  (one(ops.*kMembers, Wrapped<kMembers>::call), ...);
}

cachalot_status FaultyDevice::create_driver(cachalot_driver** out_driver, cachalot_error* error) {
  Ops ops = driver_functions();
  wrap<&Ops::memory_info, &Ops::allocate, &Ops::free, &Ops::reserve, &Ops::unreserve, &Ops::create,
       &Ops::export_handle, &Ops::import_handle, &Ops::release, &Ops::map, &Ops::unmap,
       &Ops::set_access, &Ops::fabric_state, &Ops::event_create, &Ops::event_destroy,
       &Ops::event_record, &Ops::event_query, &Ops::event_synchronize, &Ops::stream_synchronize,
       &Ops::device_synchronize, &Ops::capture_info, &Ops::node_dependencies,
       &Ops::exchange_capture_mode, &Ops::enable_peer, &Ops::pool_allocate, &Ops::pool_free,
       &Ops::pool_trim, &Ops::pool_get_attribute, &Ops::pool_set_attribute, &Ops::pool_set_access,
       &Ops::stream_create, &Ops::stream_wait_event, &Ops::graph_get_attribute,
       &Ops::graph_set_attribute, &Ops::host_allocate, &Ops::host_free, &Ops::ipc_get,
       &Ops::ipc_open, &Ops::ipc_close>(ops);
  ScriptDevice* const self = this;
  return cachalot_driver_create_custom(&ops, device_count(), self, nullptr, out_driver, error);
}

// Those of this process.
size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// Operations that change nothing where they fail.
bool shares_memory(std::string_view word) {
  return word == "share" || word == "import" || word == "open";
}

// The status of each operation, by its number in the script.
using Statuses = std::vector<int32_t>;

// One replay of one script.
class FaultyRun {
 public:
  // plain: of a run in which no call fails.
  FaultyRun(const ExpectedFile& file, int32_t release, size_t failing, int32_t code,
            const Statuses& plain)
      : file_(file), setup_(read_setup(file.operations())), plain_(plain) {
    setup_.library.release = release;
    setup_.library.unobserved = true;
    failing_ = failing;
    code_ = code;
  }

  // What does not hold; "" if all does.
  std::string run() {
    const size_t descriptors = open_descriptors();
    std::string fault = run_script();
    if (fault.empty() && open_descriptors() != descriptors) fault = "descriptors are left open";
    return fault;
  }

  const std::vector<bool>& calls() const { return calls_; }
  const Statuses& statuses() const { return statuses_; }
  // The status of the operation in which the call failed.
  int32_t status() const { return status_; }

 private:
  std::string run_script() {
    Script script(setup_.library, [this](Transcript& transcript) {
      auto device = std::make_unique<FaultyDevice>(transcript);
      device->fail_call(failing_, code_);
      device_ = device.get();
      return device;
    });
    script.device()->set_memory(setup_.memory, setup_.devices);
    std::string fault;
    for (size_t i = 0; i < file_.operations().size() && fault.empty(); i++) {
      const Operation& operation = file_.operations()[i];
      const OperationKind* kind = find_operation_kind(operation.word);
      if (kind == nullptr) break;
      // What a thread in the background does meanwhile is thousands of calls, each of which would have to fail once.
      const bool is_run = operation.word != "host_sleep";
      statuses_.push_back(CACHALOT_OK);
      if (is_run) fault = run_operation(script, *kind, operation);
    }
    if (fault.empty()) fault = audit(script);
    device_->begin_end();
    const std::string end = script.finish();
    calls_ = device_->calls();
    if (!fault.empty()) return fault;
    return device_->keeps_something() ? "" : end;
  }

  // The number of the operation is that of the last status.
  std::string run_operation(Script& script, const OperationKind& kind, const Operation& operation) {
    const size_t index = statuses_.size() - 1;
    const bool had_failed = device_->has_failed();
    const bool shares = shares_memory(operation.word);
    const std::string before = shares ? state(script) : "";
    std::string fault = run_once(script, kind, operation);
    const bool fails_here = device_->has_failed() && !had_failed;
    if (fails_here) {
      status_ = statuses_.back();
      if (fault.empty() && shares) fault = run_again(script, kind, operation, before);
    }
    if (fault.empty() && is_as_plain_ && statuses_[index] != plain_[index])
      fault = "operation " + decimal(index + 1) + " does not do what it did without the failure";
    if (!fault.empty()) return fault;
    return fails_here || index % kOperationsBetweenAudits == 0 ? audit(script) : "";
  }

  // An operation that has failed, and so changed nothing, does the same as if no call had failed,
  // and so does the rest of the script.
  std::string run_again(Script& script, const OperationKind& kind, const Operation& operation,
                        const std::string& before) {
    if (status_ == CACHALOT_OK && device_->keeps_something()) return "";
    if (status_ == CACHALOT_OK) return "nobody is told that the call failed";
    if (!device_->keeps_something() && state(script) != before)
      return "a failed '" + std::string(operation.word) + "' has changed something";
    is_as_plain_ = true;
    return run_once(script, kind, operation);
  }

  std::string run_once(Script& script, const OperationKind& kind, const Operation& operation) {
    script.begin_operation(statuses_.size(), operation.expected);
    if (kind.run != nullptr && (kind.stage != Stage::kAllocator || script.start())) {
      Arguments arguments(operation.line);
      kind.run(script, arguments);
    }
    script.end_operation();
    statuses_.back() = CACHALOT_OK;
    for (const Line& line : script.transcript().lines()) {
      if (!line.failure) continue;
      statuses_.back() = line.failure->status;
      if (line.failure->status == CACHALOT_ERROR_INTERNAL) return line.text;
      if (line.text.empty() || line.text == Script::kNoMessage) return "a failure without a text";
    }
    return "";
  }

  // What the device and the statistics tell, in no particular form.
  std::string state(Script& script) {
    if (script.allocator() == nullptr) return "";
    std::string text = script.device()->leftovers();
    cachalot_stats stats{};
    stats.struct_size = sizeof stats;
    uint64_t totals[2] = {};
    device_->set_counting(false);
    script.worked(cachalot_get_stats(script.allocator(), kDevice, &stats, script.error()));
    script.worked(
        cachalot_expandable_totals(script.allocator(), &totals[0], &totals[1], script.error()));
    device_->set_counting(true);
    text.append(reinterpret_cast<const char*>(&stats), sizeof stats);
    text.append(reinterpret_cast<const char*>(totals), sizeof totals);
    return text;
  }

  static std::string audit(Script& script) {
    if (script.allocator() == nullptr) return "";
    cachalot_error error = CACHALOT_ERROR_INIT;
    return cachalot_check(script.allocator(), &error) == CACHALOT_OK ? "" : error.message;
  }

  const ExpectedFile& file_;
  ScriptSetup setup_;
  const Statuses& plain_;
  size_t failing_ = 0;
  int32_t code_ = 0;
  FaultyDevice* device_ = nullptr;
  std::vector<bool> calls_;
  Statuses statuses_;
  bool is_as_plain_ = false;  // all operations from here on
  int32_t status_ = CACHALOT_OK;
};

struct CommandLine {
  std::vector<std::string> files;
  std::string release = "2.15";
  size_t calls = 50;
};

struct FaultTally {
  size_t calls = 0;
  size_t runs = 0;
  size_t defects = 0;
  std::map<int32_t, size_t> statuses;
};

void run_faulty(const std::string& path, const ExpectedFile& file, int32_t release, size_t call,
                int32_t code, const Statuses& plain, FaultTally* tally) {
  FaultyRun run(file, release, call, code, plain);
  const std::string fault = run.run();
  tally->runs++;
  tally->statuses[run.status()]++;
  if (fault.empty()) return;
  tally->defects++;
  std::printf("%s: with call %zu failing with %d: %s\n", path.c_str(), call, code, fault.c_str());
}

void run_file(const std::string& path, const CommandLine& command, FaultTally* tally) {
  const ExpectedFile file(read_text_file(path));
  const int32_t release = command.release == "2.11" ? CACHALOT_RELEASE_2_11 : CACHALOT_RELEASE_2_15;
  const Statuses none;
  FaultyRun whole(file, release, 0, 0, none);
  const std::string fault = whole.run();
  if (!fault.empty()) {
    tally->defects++;
    std::printf("%s: without a failure: %s\n", path.c_str(), fault.c_str());
    return;
  }
  const std::vector<bool>& calls = whole.calls();
  tally->calls += calls.size();
  const size_t count = std::min(command.calls, calls.size());
  for (size_t i = 0; i < count; i++) {
    const size_t call = i * calls.size() / count + 1;
    run_faulty(path, file, release, call, kDriverError, whole.statuses(), tally);
    if (calls[call - 1])
      run_faulty(path, file, release, call, CACHALOT_DRIVER_OUT_OF_MEMORY, whole.statuses(), tally);
  }
}

int run(int argc, char** argv) {
  CommandLine command;
  CLI::App app("Replays scripts with one driver call failing, another one each time.");
  app.add_option("FILE", command.files, "expected files: plain, .gz or .xz")->required();
  app.add_option("--torch", command.release, "the release")->check(CLI::IsMember({"2.11", "2.15"}));
  app.add_option("--calls", command.calls, "at most so many calls of each script");
  CLI11_PARSE(app, argc, argv);
  FaultTally tally;
  for (const std::string& path : command.files) {
    try {
      run_file(path, command, &tally);
    } catch (const InputError& error) {
      std::printf("%s: %s\n", path.c_str(), error.what());
      return 2;
    }
  }
  std::printf("%zu files, %zu calls, %zu replays, %zu defects\n", command.files.size(), tally.calls,
              tally.runs, tally.defects);
  for (const auto& [status, count] : tally.statuses)
    std::printf("  %s: %zu\n", cachalot_status_name(status), count);
  return tally.defects == 0 ? 0 : 1;
}

}  // namespace
}  // namespace cachalot::differential

int main(int argc, char** argv) { return cachalot::differential::run(argc, argv); }
