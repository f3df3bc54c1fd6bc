// SPDX-License-Identifier: MIT OR Apache-2.0
#include "environment.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/disabled.h"
#include "base/error.h"
#include "base/text.h"
#include "recorders.h"

namespace cachalot::capi {

namespace {

// "" where it is not set.
std::string text_of(const char* name) {
  const char* const value = secure_getenv(name);
  return value != nullptr ? value : "";
}

// See capi/proxy/run_options.h.
bool is_proxied() {
  const bool is_asked_for =
      !text_of("CACHALOT_RECORD").empty() || !text_of("CACHALOT_RUN_FREE").empty();
  return is_asked_for && !is_disabled_by_environment();
}

}  // namespace

std::string environment_config() {
  for (const char* name : {"CACHALOT_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"})
    if (const char* value = secure_getenv(name)) return value;
  return "";
}

std::optional<std::string> environment_pinned_config() {
  const char* const value = secure_getenv("CACHALOT_PINNED_CONF");
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

Release environment_release() {
  const char* value = secure_getenv("CACHALOT_RELEASE");
  if (value == nullptr || std::string_view(value) == "2.15") return Release::k2_15;
  if (std::string_view(value) == "2.11") return Release::k2_11;
  throw_invalid_argument(
      format("the environment variable CACHALOT_RELEASE is \"%s\": expected 2.11 or 2.15", value));
}

bool environment_caching(const LogSink& log) {
  const char* value = secure_getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
  if (value == nullptr || std::string_view(value) == "0") return true;
  if (std::string_view(value) == "1") return false;
  if (log) {
    // The missing space is the reference's.
    const std::string text = format(
        "Ignoring invalid value for boolean flag PYTORCH_NO_CUDA_MEMORY_CACHING: %svalid values "
        "are 0 or 1.",
        value);
    log(LogLevel::kWarning, text.c_str());
  }
  return true;
}

DebugOptions environment_debug() {
  DebugOptions options;
  const char* value = secure_getenv("CACHALOT_DEBUG");
  std::string_view left = value == nullptr ? "" : value;
  while (!left.empty()) {
    const std::string word(left.substr(0, left.find(',')));
    left.remove_prefix(std::min(word.size() + 1, left.size()));
    bool* const known = word == "nvtx"       ? &options.nvtx
                        : word == "poison"   ? &options.poison
                        : word == "redzones" ? &options.red_zones
                                             : nullptr;
    if (known == nullptr) {
      throw_invalid_argument(format(
          "the environment variable CACHALOT_DEBUG is \"%s\": expected a list of nvtx, poison and "
          "redzones",
          value));
    }
    *known = true;
  }
  return options;
}

ServingOptions environment_policy() {
  const char* value = secure_getenv("CACHALOT_POLICY");
  if (value == nullptr || *value == '\0') return {};
  return parse_policy(value, "the environment variable CACHALOT_POLICY is");
}

Texts environment_texts() {
  const std::string value = text_of("CACHALOT_TEXTS");
  if (value.empty() || value == "pytorch") return Texts::kPyTorch;
  if (value == "own") return Texts::kOwn;
  throw_invalid_argument(format(
      "the environment variable CACHALOT_TEXTS is \"%s\": expected pytorch or own", value.c_str()));
}

std::string environment_trace() { return is_proxied() ? "" : text_of("CACHALOT_TRACE"); }

uint64_t environment_trace_bytes() {
  const std::string value = text_of("CACHALOT_TRACE_KEEP");
  if (value.empty()) return 0;
  const auto bytes = parse_bytes(value);
  if (!bytes || *bytes < kLeastKeptBytes) {
    throw_invalid_argument(
        format("the environment variable CACHALOT_TRACE_KEEP is \"%s\": expected at least 2MiB",
               value.c_str()));
  }
  return *bytes;
}

std::string environment_oom_dump() { return text_of("CACHALOT_OOM_DUMP"); }

bool environment_shareable_pages() {
  const char* value = secure_getenv("TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC");
  return value == nullptr || std::string_view(value) != "0";
}

}  // namespace cachalot::capi
