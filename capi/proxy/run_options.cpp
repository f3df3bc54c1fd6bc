// SPDX-License-Identifier: MIT OR Apache-2.0
#include "run_options.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "base/disabled.h"
#include "base/text.h"

namespace cachalot::proxy {
namespace {

[[noreturn]] void refuse(const char* name, const std::string& value, const char* expected) {
  throw std::invalid_argument(std::string(name) + "=" + value + ": expected " + expected);
}

uint64_t bytes_of(const char* name) {
  const std::string text = environment_text(name);
  if (text.empty()) return 0;
  const auto bytes = parse_bytes(text);
  if (!bytes) refuse(name, text, "bytes, like 512MiB");
  return *bytes;
}

uint64_t seconds_of(const char* name) {
  const std::string text = environment_text(name);
  uint64_t seconds = 0;
  const char* const end = text.data() + text.size();
  if (text.empty()) return 0;
  const auto [read_to, error] = std::from_chars(text.data(), end, seconds);
  if (error != std::errc() || read_to != end) refuse(name, text, "whole seconds");
  return seconds;
}

// Whether it is the second of two words; the first one if it is not set.
bool is_second(const char* name, const char* first, const char* second, const char* expected) {
  const std::string text = environment_text(name);
  if (text == second) return true;
  if (!text.empty() && text != first) refuse(name, text, expected);
  return false;
}

bool is_on(const char* name) { return is_second(name, "0", "1", "0 or 1"); }

RunOptions read_options() {
  RunOptions options;
  options.frees_by_event = is_second("CACHALOT_RUN_FREE", "wait", "event", "wait or event");
  if (!environment_text("CACHALOT_RUN_LEASH").empty())
    options.leash = bytes_of("CACHALOT_RUN_LEASH");
  options.limit = bytes_of("CACHALOT_RUN_LIMIT");
  options.serves_async =
      is_second("CACHALOT_RUN_ASYNC", "driver", "cachalot", "driver or cachalot") ||
      options.limit != 0;
  options.tenant = environment_text("CACHALOT_RUN_TENANT");
  options.trim_idle_seconds = seconds_of("CACHALOT_RUN_TRIM_IDLE");
  options.metrics = environment_text("CACHALOT_RUN_METRICS");
  options.clears = is_on("CACHALOT_RUN_CLEAR");
  options.are_whole = is_on("CACHALOT_RUN_WHOLE");
  options.list = environment_text("CACHALOT_RUN_LIST");
  options.serves_virtual =
      is_second("CACHALOT_RUN_VIRTUAL", "driver", "cachalot", "driver or cachalot");
  if (options.serves_virtual && (options.limit != 0 || options.clears))
    refuse("CACHALOT_RUN_VIRTUAL", "cachalot",
           "no limit and no clearing, which memory that the program maps would escape");
  return options;
}

}  // namespace

std::string environment_text(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_serving_asked_for() {
  return !environment_text("CACHALOT_RUN_FREE").empty() && !is_disabled_by_environment();
}

std::optional<RunOptions> run_options_of_environment() {
  if (!is_serving_asked_for()) return std::nullopt;
  try {
    return read_options();
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "cachalot: the program is not served: %s\n", error.what());
    return std::nullopt;
  }
}

}  // namespace cachalot::proxy
