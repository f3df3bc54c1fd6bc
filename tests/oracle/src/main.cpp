// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs an operation script through PyTorch's own allocator binary over the simulated runtime and
// writes, under each operation, everything that PyTorch did. See FORMAT.md.
#include <c10/cuda/CUDACachingAllocator.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "context.h"
#include "errors.h"
#include "operations.h"
#include "output.h"
#include "rejections.h"
#include "report.h"
#include "run.h"

namespace {

using namespace oracle;

constexpr const char* kConfigVariable = "PYTORCH_CUDA_ALLOC_CONF";
// Set in the second life of the process.
constexpr const char* kReadyVariable = "ORACLE_READY";

using Script = std::vector<std::string>;

Script read_script(const char* path) {
  std::ifstream in(path);
  if (!in) {
    fprintf(stderr, "oracle: %s: cannot be read\n", path);
    exit(2);
  }
  Script script;
  for (std::string text; std::getline(in, text);) script.push_back(text);
  return script;
}

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

void set_variable(const std::string& assignment) {
  const size_t equals = assignment.find('=');
  setenv(assignment.substr(0, equals).c_str(), assignment.substr(equals + 1).c_str(), 1);
}

// PyTorch reads its environment when the library is loaded, so a script that sets something there
// makes the program start once more.
void start_again_in_environment(const Script& script, char** argv) {
  std::optional<std::string> config;
  std::vector<std::string> assignments;
  for (const std::string& text : script) {
    if (starts_with(text, "config")) config = text.size() > 7 ? text.substr(7) : "";
    if (starts_with(text, "env ")) assignments.push_back(text.substr(4));
  }
  if ((!config && assignments.empty()) || getenv(kReadyVariable)) return;
  setenv(kReadyVariable, "1", 1);
  unsetenv(kConfigVariable);
  if (config && !config->empty()) setenv(kConfigVariable, config->c_str(), 1);
  for (const std::string& assignment : assignments) set_variable(assignment);
  execv("/proc/self/exe", argv);
  perror("oracle: execv");
  exit(2);
}

void perform(const std::string& text) {
  Arguments arguments(text);
  const std::string word = arguments.word();
  if (word.empty() || word[0] == '#') return;
  fprintf(out, "%s\n", text.c_str());
  if (auto setup = setup_operations().find(word); setup != setup_operations().end()) {
    setup->second(arguments);
  } else {
    run.start();
    auto operation = operations().find(word);
    if (operation == operations().end()) {
      fprintf(stderr, "unknown op %s\n", text.c_str());
      exit(2);
    }
    try {
      operation->second(arguments);
    } catch (const std::exception& error) {
      line("E " + describe(error));
    }
  }
  if (run.ready && run.native) report_rejections();
}

void report_end() {
  run.start();
  fprintf(out, "end\n");
  report_statistics();
  if (run.native) report_segments(cca::snapshot());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: oracle SCRIPT OUT [nodevice]\n");
    return 2;
  }
  const Script script = read_script(argv[1]);
  start_again_in_environment(script, argv);
  out = fopen(argv[2], "w");
  if (!out) {
    fprintf(stderr, "oracle: %s: cannot be written\n", argv[2]);
    return 2;
  }
  run.device_lines = !(argc > 3 && std::string(argv[3]) == "nodevice");
  for (const std::string& text : script) {
    script_line++;
    perform(text);
  }
  report_end();
  fflush(out);
  // Live blocks are part of what was reported, so nothing is freed on the way out.
  _exit(0);
}
