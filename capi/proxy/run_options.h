// SPDX-License-Identifier: MIT OR Apache-2.0
// How a program is served, by the environment (docs/any-program.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cachalot::proxy {

struct RunOptions {
  // CACHALOT_RUN_FREE: "wait" or "event", which also says that the program is served.
  bool frees_by_event = false;
  // CACHALOT_RUN_LEASH: bytes that may wait for their events; nothing: a quarter of those in use, and at least
  // 64 MiB.
  std::optional<uint64_t> leash;
  // CACHALOT_RUN_ASYNC: "driver" or "cachalot". A limit implies the latter.
  bool serves_async = false;
  bool serves_virtual = false;     // CACHALOT_RUN_VIRTUAL: "driver" or "cachalot"
  uint64_t limit = 0;              // CACHALOT_RUN_LIMIT: bytes of each device; 0: none
  std::string tenant;              // CACHALOT_RUN_TENANT: a name; "": none
  uint64_t trim_idle_seconds = 0;  // CACHALOT_RUN_TRIM_IDLE; 0: never
  std::string metrics;     // CACHALOT_RUN_METRICS: a file, %p in it is the process; "": none
  bool clears = false;     // CACHALOT_RUN_CLEAR: "1"
  bool are_whole = false;  // CACHALOT_RUN_WHOLE: "1"
  std::string list;        // CACHALOT_RUN_LIST: a file that gets lines of what was served; "": none
};

// Whether the environment asks for it, with whatever settings.
bool is_serving_asked_for();

// Nothing if the program is not to be served. A value that cannot be is remarked on, and nothing is served.
std::optional<RunOptions> run_options_of_environment();

// "" where the variable is not set. For all variables of the proxy.
std::string environment_text(const char* name);

}  // namespace cachalot::proxy
