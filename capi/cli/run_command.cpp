// SPDX-License-Identifier: MIT OR Apache-2.0
#include "run_command.h"

#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <sstream>

#include "cachalot/cachalot.h"
#include "failure.h"
#include "launch.h"
#include "line_file.h"
#include "numbers.h"
#include "options_check.h"
#include "proxy_folder.h"

namespace cachalot::cli {
namespace {

using Environment = std::map<std::string, std::string>;

// What the program's processes are told (docs/any-program.md).
Environment run_environment(const RunCall& call) {
  Environment environment{{"CACHALOT_RUN_FREE", call.free}};
  const auto set = [&](const char* name, const std::string& value) {
    if (!value.empty()) environment[name] = value;
  };
  set("CACHALOT_RUN_ASYNC", call.async == "driver" ? "" : call.async);
  set("CACHALOT_RUN_VIRTUAL", call.virtual_memory == "driver" ? "" : call.virtual_memory);
  if (call.leash) set("CACHALOT_RUN_LEASH", std::to_string(*call.leash));
  if (call.limit != 0) set("CACHALOT_RUN_LIMIT", std::to_string(call.limit));
  if (call.trim_idle != 0) set("CACHALOT_RUN_TRIM_IDLE", std::to_string(call.trim_idle));
  set("CACHALOT_RUN_TENANT", call.tenant);
  if (!call.metrics.empty())
    set("CACHALOT_RUN_METRICS", std::filesystem::absolute(call.metrics).string());
  set("CACHALOT_RUN_CLEAR", call.clear ? "1" : "");
  set("CACHALOT_RUN_WHOLE", call.whole ? "1" : "");
  if (call.config) environment["CACHALOT_ALLOC_CONF"] = *call.config;
  set("CACHALOT_POLICY", call.policy);
  return environment;
}

std::string name_of(uid_t user) {
  const passwd* const entry = getpwuid(user);
  return entry != nullptr ? entry->pw_name : std::to_string(user);
}

int print_environment(const RunCall& call) {
  const std::string folder = proxy_folder(call.env_folder);
  Environment environment = proxy_environment(folder, call.audit);
  environment.merge(run_environment(call));
  for (const auto& [name, value] : environment) std::printf("%s=%s\n", name.c_str(), value.c_str());
  tell_user(folder + " belongs to " + name_of(geteuid()) +
            ": who can write to it decides which driver the programs load");
  return kAsExpected;
}

// What a process says when it ends (capi/proxy/server.cpp).
void print_context(std::istream* words) {
  int64_t process = 0;
  int device = 0;
  std::string context;
  uint64_t served = 0;
  uint64_t not_served = 0;
  uint64_t requested = 0;
  uint64_t reserved = 0;
  uint64_t obtained = 0;
  uint64_t released = 0;
  *words >> process >> device >> context >> served >> not_served >> requested >> reserved >>
      obtained >> released;
  if (!*words) return;
  std::string text = "process " + std::to_string(process) + ", device " + std::to_string(device) +
                     (context == "0" ? "" : ", a context of its own") + ": " + grouped(served) +
                     " requests served by " + grouped(obtained + released) +
                     " calls of the driver, " + mebibytes(reserved) + " reserved at most for " +
                     mebibytes(requested);
  if (not_served > 0) text += "; " + grouped(not_served) + " requests not served";
  tell_user(text);
}

void print_mappings(std::istream* words) {
  int64_t process = 0;
  uint64_t requests = 0;
  uint64_t created = 0;
  *words >> process >> requests >> created;
  if (!*words) return;
  tell_user("process " + std::to_string(process) + ": " + grouped(requests) +
            " requests for memory to be mapped, " + grouped(created) + " of them by the driver");
}

void print_end(const std::string& line) {
  std::istringstream words(line);
  std::string kind;
  words >> kind;
  if (kind == "end") print_context(&words);
  if (kind == "virtual") print_mappings(&words);
}

void print_ends(const std::vector<std::string>& lines) {
  if (lines.empty())
    tell_user(
        "nothing is served: no process asked the CUDA driver for memory by cuMemAlloc, or one "
        "opened the driver by its path (--audit)");
  for (const std::string& line : lines) print_end(line);
}

}  // namespace

void add_run_command(CLI::App* app, RunCall* call) {
  CLI::App* const run = app->add_subcommand(
      "run",
      "Start any CUDA program, unchanged, and serve its requests from PyTorch's allocator: "
      "cachalot run [OPTIONS] -- PROGRAM [ARGUMENTS]...");
  run->prefix_command();
  run->add_option("--free", call->free,
                  "When a freed block may be used again: wait, as the driver does, or event, "
                  "without a wait of the host [wait]")
      ->check(CLI::IsMember({"wait", "event"}));
  run->add_option("--leash", call->leash,
                  "With event: bytes that may wait for work of the device, like 64MiB [a quarter "
                  "of what is in use, at least 64MiB]")
      ->transform(CLI::AsSizeValue(false));
  run->add_option("--async", call->async,
                  "Who serves cuMemAllocAsync: driver or cachalot [driver; cachalot with --limit]")
      ->check(CLI::IsMember({"driver", "cachalot"}));
  run->add_option(
         "--virtual", call->virtual_memory,
         "Who serves memory that the program maps itself (cuMemCreate): driver or cachalot "
         "[driver]")
      ->check(CLI::IsMember({"driver", "cachalot"}));
  run->add_option("--config", call->config, "Option string, as PYTORCH_CUDA_ALLOC_CONF has it");
  run->add_option("--policy", call->policy, "pytorch, or serving and its options [pytorch]");
  run->add_option("--limit", call->limit, "Bytes of each device that a process may have, like 8GiB")
      ->transform(CLI::AsSizeValue(false));
  run->add_option("--tenant", call->tenant, "A name that the metrics show for what is served");
  run->add_option("--trim-idle", call->trim_idle,
                  "Give back to the driver what has not been used for so many seconds");
  run->add_option("--metrics", call->metrics,
                  "A file for Prometheus, written anew every 10 s; %p in it is the process");
  run->add_flag("--clear", call->clear, "Hand out zeros, as the driver does");
  run->add_flag("--whole", call->whole,
                "Make each block an allocation of the driver's, as CUDA IPC needs it");
  run->add_flag("--audit", call->audit,
                "Also find programs that open the driver by its path, like Numba's");
  run->add_option("--print-env", call->env_folder,
                  "Start nothing: make this folder of links and print the variables that lead a "
                  "program to it");
  run->add_flag("-q,--quiet", call->quiet, "Say nothing at the end");
  run->footer("The exit code is the program's; 125 if it could not be started.");
  call->command = run;
}

int run_run_command(const RunCall& call) {
  if (is_disabled() && call.env_folder.empty())
    return launch_as_it_is(program_of(call.program, *call.command));
  if (call.virtual_memory == "cachalot" && (call.limit != 0 || call.clear))
    throw Failure(
        "--virtual cachalot cannot be with --limit or --clear: memory that the program maps itself "
        "is neither counted nor cleared");
  check_options(call.config.value_or(""),
                call.policy.empty() ? cachalot_policy{} : read_policy(call.policy));
  if (!call.env_folder.empty()) return print_environment(call);
  const std::vector<std::string> program = program_of(call.program, *call.command);
  const LineFile list;
  Environment environment = proxy_environment(proxy_folder(), call.audit);
  environment.merge(run_environment(call));
  environment["CACHALOT_RUN_LIST"] = list.path();
  const Launched launched = launch(program, environment, [] {});
  if (launched.error == 0 && !call.quiet) print_ends(list.lines());
  return launched.exit_code;
}

}  // namespace cachalot::cli
