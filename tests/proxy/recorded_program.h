// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs that are recorded: each is a child of the test, which loads the driver by its name and finds the proxy.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "driver.h"
#include "replay/trace.h"

namespace proxy_test {

struct RecordedRun {
  int status = 0;                                 // of waitpid
  std::string output;                             // standard error of the program
  std::map<std::string, cachalot::Trace> traces;  // by file name

  const cachalot::Trace& trace() const;  // of the only file
};

// Runs the program in a process of its own. It fails by exit codes other than 0 (CHECK). environment: set before the
// driver is loaded.
RecordedRun run_recorded(const std::function<void(const Driver&)>& program,
                         const std::map<std::string, std::string>& environment = {});

// Likewise, and the program goes well and says nothing.
RecordedRun record(const std::function<void(const Driver&)>& program,
                   const std::map<std::string, std::string>& environment = {});

// Served, by `wait` where the settings do not say otherwise, and not recorded. Gives what it says on standard error.
using Settings = std::map<std::string, std::string>;
std::string serve(const std::function<void(const Driver&)>& program, Settings settings = {});
// Likewise, and it says nothing.
void serve_in_silence(const std::function<void(const Driver&)>& program,
                      const Settings& settings = {});

// Of 512 bytes on stream 16: "a t 512 on 16". Action, entry, size and stream of each event but those of `without`.
using Lines = std::vector<std::string>;
Lines lines_of(const cachalot::Trace& trace, const std::string& without = "");

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                               \
    }                                                                              \
  } while (false)

// While it lives, the work of the fake is finished, some time later.
class LaterFinish {
 public:
  explicit LaterFinish(const Driver& driver);
  ~LaterFinish() { thread_.join(); }
  LaterFinish(const LaterFinish&) = delete;
  LaterFinish& operator=(const LaterFinish&) = delete;

 private:
  std::thread thread_;
};

// CACHALOT_TEST_SEED, or a fresh one. It is printed.
unsigned seed_of_this_run();

// Whether others of the program's threads may ask for memory during a capture, and the one that captures.
constexpr int kThreadLocalCapture = 1;
constexpr int kRelaxedCapture = 2;

DeviceAddress allocate(const Driver& driver, size_t size);
void free_block(const Driver& driver, DeviceAddress address);
// Of the current device, as the driver tells the program.
size_t free_memory(const Driver& driver);
StreamHandle make_stream(const Driver& driver);

}  // namespace proxy_test
