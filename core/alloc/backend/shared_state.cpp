// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/backend/shared_state.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <string_view>

#include "base/assert.h"
#include "base/text.h"

namespace cachalot {
namespace {

// A conversion beyond the range of 64 bits would be undefined.
uint64_t saturated(double bytes) {
  CACHALOT_ASSERT(1, bytes >= 0);
  constexpr double kTooMany = 18446744073709551616.0;
  return bytes >= kTooMany ? UINT64_MAX : static_cast<uint64_t>(bytes);
}

uint64_t bytes_of(const Reserve& reserve, uint64_t total) {
  const double unit = reserve.is_fraction ? static_cast<double>(total) : static_cast<double>(GiB);
  return saturated(std::floor(reserve.value * unit));
}

}  // namespace

SharedState::SharedState(const AllocatorOptions& options)
    : driver(*options.driver),
      rules(options.rules),
      track_labels(options.track_labels),
      check_every_call(options.check_every_call),
      looks_in_stream_order(options.looks_in_stream_order),
      contexts(options.context_source),
      log(options.log),
      handle_types(driver, rules, options.shareable_pages, log),
      tenants(std::make_shared<Tenants>(driver.device_count())),
      debug(options.debug) {}

void SharedState::warn_of_options(const std::string& text) {
  // The reference gives this warning once a process, and the others each time (R33, R34).
  constexpr std::string_view kLimits = "pinned_max_round_threshold_mb (";
  if (text.starts_with(kLimits)) {
    log.warn_once(std::string(kLimits), text);
  } else {
    log.warn(text);
  }
}

void SharedState::advise_of(const Settings& changed) {
  settings_lock.assert_held();
  const bool is_trap = changed.expandable_segments && changed.max_split_size != kUnlimited;
  if (!is_trap || rules.mend_split_limit || changed.is_backend_async || has_advised_ ||
      !log.is_open())
    return;
  has_advised_ = true;
  const std::string text = format(
      "max_split_size_mb:%" PRIu64
      " with expandable_segments:True can reserve memory without bound (PyTorch issue 123548): "
      "leave max_split_size_mb out, or set CACHALOT_MEND_SPLIT_LIMIT",
      changed.max_split_size / MiB);
  log.advise(text);
}

std::string SharedState::reserve_class(Stream stream) {
  std::lock_guard guard(lock_);
  const auto found = reserve_classes_.find(stream);
  return found == reserve_classes_.end() ? "" : found->second;
}

void SharedState::set_reserve_class(Stream stream, const std::string& name) {
  std::lock_guard guard(lock_);
  if (name.empty()) {
    reserve_classes_.erase(stream);
  } else {
    reserve_classes_[stream] = name;
  }
}

ReserveDecision decide_reserve(const Settings& settings, const std::string& name, uint64_t total) {
  const uint64_t full = total + total / 8;
  const auto& classes = settings.expandable_segments_reserve_by_class;
  const auto found = name.empty() ? classes.end() : classes.find(name);
  ReserveDecision decision{{}, found != classes.end(), full};
  if (found != classes.end()) {
    decision.reserve_bytes = bytes_of(found->second, total);
  } else if (settings.expandable_segments_reserve) {
    decision.reserve_bytes = bytes_of(*settings.expandable_segments_reserve, total);
  }
  if (decision.reserve_bytes) decision.segment_bytes = std::min(*decision.reserve_bytes, full);
  return decision;
}

}  // namespace cachalot
