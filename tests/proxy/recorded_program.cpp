// SPDX-License-Identifier: MIT OR Apache-2.0
#include "recorded_program.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "replay/event_line.h"
#include "replay/trace_file.h"

#ifdef __SANITIZE_ADDRESS__
// The allocators of a program that is served live as long as its threads, and the blocks' objects lie in memory that the
// leak sanitizer does not look into.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:cachalot::proxy::Server\nleak:cachalot::proxy::ServedContext\n";
}
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }
#endif

namespace proxy_test {
namespace {

using cachalot::Trace;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cachalot-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Trace read_trace_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return cachalot::read_trace([&](char* buffer, size_t capacity) {
    file.read(buffer, static_cast<std::streamsize>(capacity));
    return static_cast<size_t>(file.gcount());
  });
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

RecordedRun run_recorded(const std::function<void(const Driver&)>& program,
                         const std::map<std::string, std::string>& environment) {
  const TemporaryFolder folder;
  const auto recordings = folder.path() / "recordings";
  std::filesystem::create_directory(recordings);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    setenv("CACHALOT_RECORD", (recordings / "run").c_str(), 1);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    if (freopen((folder.path() / "output").c_str(), "w", stderr) == nullptr) std::_Exit(2);
    std::setvbuf(stderr, nullptr, _IONBF, 0);
    program(Driver());
    std::exit(0);
  }
  RecordedRun run;
  waitpid(child, &run.status, 0);
  run.output = text_of(folder.path() / "output");
  for (const auto& file : std::filesystem::directory_iterator(recordings))
    run.traces.emplace(file.path().filename(), read_trace_file(file.path()));
  return run;
}

RecordedRun record(const std::function<void(const Driver&)>& program,
                   const std::map<std::string, std::string>& environment) {
  RecordedRun run = run_recorded(program, environment);
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(run.output, "");
  return run;
}

std::string serve(const std::function<void(const Driver&)>& program, Settings settings) {
  settings.emplace("CACHALOT_RUN_FREE", "wait");
  settings["CACHALOT_RECORD"] = "";
  const RecordedRun run = run_recorded(program, settings);
  EXPECT_EQ(run.status, 0) << run.output;
  return run.output;
}

void serve_in_silence(const std::function<void(const Driver&)>& program, const Settings& settings) {
  EXPECT_EQ(serve(program, settings), "");
}

unsigned seed_of_this_run() {
  const char* const given = std::getenv("CACHALOT_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
  std::printf("CACHALOT_TEST_SEED=%u\n", seed);
  return seed;
}

LaterFinish::LaterFinish(const Driver& driver)
    : thread_([&driver] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        driver.fake_finish_work();
      }) {}

DeviceAddress allocate(const Driver& driver, size_t size) {
  DeviceAddress address = 0;
  CHECK(driver.cuMemAlloc_v2(&address, size) == 0);
  return address;
}

void free_block(const Driver& driver, DeviceAddress address) {
  CHECK(driver.cuMemFree_v2(address) == 0);
}

size_t free_memory(const Driver& driver) {
  size_t available = 0;
  size_t total = 0;
  CHECK(driver.cuMemGetInfo_v2(&available, &total) == 0);
  return available;
}

StreamHandle make_stream(const Driver& driver) {
  StreamHandle stream = nullptr;
  CHECK(driver.cuStreamCreate(&stream, 1) == 0);
  return stream;
}

const Trace& RecordedRun::trace() const {
  static const Trace none;
  EXPECT_EQ(traces.size(), 1u) << output;
  return traces.empty() ? none : traces.begin()->second;
}

Lines lines_of(const Trace& trace, const std::string& without) {
  Lines lines;
  for (size_t i = 0; i < trace.events.size(); i++) {
    const cachalot::TraceEvent& event = trace.events[i];
    const char letter = cachalot::action_letter(event.action());
    if (without.find(letter) != std::string::npos) continue;
    const char entry = trace.details[i].entry;
    std::string line = {letter, ' ', entry == 0 ? '-' : entry};
    line += " " + std::to_string(event.size);
    if (event.stream != 0) line += " on " + std::to_string(event.stream);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace proxy_test
