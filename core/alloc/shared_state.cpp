// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/shared_state.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "base/text.h"

namespace cachalot {
namespace {

constexpr uint64_t kTrialBytes = 2 * MiB;
constexpr size_t kMostWarnings = 1000;  // different ones; callers name some of the reasons

// A double as a number of bytes, cut at what 64 bits hold.
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

HandleType HandleTypes::for_device(int device) {
  CACHALOT_ASSERT(1, device >= 0 && device < driver_.device_count());
  if (!shareable_) return HandleType::kNone;
  std::lock_guard guard(lock_);
  auto found = has_fabric_.find(device);
  if (found == has_fabric_.end()) found = has_fabric_.emplace(device, try_fabric(device)).first;
  return found->second ? HandleType::kFabric : HandleType::kPosixFd;
}

bool HandleTypes::is_part_of_fabric(int device) {
  lock_.assert_held();
  int32_t state = 0;
  const DriverCode code = driver_.fabric_state(device, &state);
  if (code == kSuccess) return state != 0;
  if (code != kDriverNotSupported && !std::exchange(has_warned_, true) && log_) {
    log_(LogLevel::kWarning,
         "nvmlDeviceGetGpuFabricInfoV failed. This function is only supported on sm90+");
  }
  return false;
}

bool HandleTypes::try_fabric(int device) {
  if (!is_part_of_fabric(device)) return false;
  uint64_t made = 0;
  if (driver_.create(device, kTrialBytes, HandleType::kFabric, false, &made) != kSuccess)
    return false;
  ShareableHandle shareable;
  uint64_t imported = 0;
  const bool works =
      driver_.export_handle(device, made, HandleType::kFabric, &shareable) == kSuccess &&
      driver_.import_handle(device, shareable, HandleType::kFabric, &imported) == kSuccess;
  if (works) driver_.release(device, imported);
  driver_.release(device, made);
  return works;
}

HandleTypes::Probed HandleTypes::probed() {
  std::lock_guard guard(lock_);
  return probed_;
}

void HandleTypes::settle(Probed type) {
  CACHALOT_ASSERT(1, type != Probed::kUndecided);
  std::lock_guard guard(lock_);
  probed_ = type;
}

SharedState::SharedState(const AllocatorOptions& options)
    : driver(*options.driver),
      rules(options.rules),
      track_labels(options.track_labels),
      check_every_call(options.check_every_call),
      looks_in_stream_order(options.looks_in_stream_order),
      contexts(options.context_source),
      handle_types(driver, rules, options.shareable_pages, options.log),
      tenants(std::make_shared<Tenants>(driver.device_count())),
      debug(options.debug),
      log_(options.log) {}

void SharedState::warn(const std::string& text) const {
  if (log_) log_(LogLevel::kWarning, text.c_str());
}

void SharedState::warn_once(const std::string& key, const std::string& text) {
  {
    std::lock_guard guard(lock_);
    if (warned_.size() == kMostWarnings || !warned_.insert(key).second) return;
  }
  warn(text);
}

void SharedState::warn_of_options(const std::string& text) {
  constexpr std::string_view kLimits = "pinned_max_round_threshold_mb (";
  if (text.starts_with(kLimits)) {
    warn_once(std::string(kLimits), text);
  } else {
    warn(text);
  }
}

void SharedState::advise_of(const Settings& changed) {
  settings_lock.assert_held();
  const bool is_trap = changed.expandable_segments && changed.max_split_size != kUnlimited;
  if (!is_trap || rules.mend_split_limit || changed.is_backend_async || has_advised_ || !log_)
    return;
  has_advised_ = true;
  const std::string text = format(
      "max_split_size_mb:%" PRIu64
      " with expandable_segments:True can reserve memory without bound (PyTorch issue 123548): "
      "leave max_split_size_mb out, or set CACHALOT_MEND_SPLIT_LIMIT",
      changed.max_split_size / MiB);
  log_(LogLevel::kAdvice, text.c_str());
}

// Said in the midst of changes, so that a remark for which there is no memory is left out.
void SharedState::differ(const char* defect, std::string_view text) const {
  if (!log_) return;
  std::string line;
  try {
    line = std::string("differs from PyTorch: ") + defect + ": " + std::string(text);
  } catch (const std::bad_alloc&) {
    return;
  }
  log_(LogLevel::kDifference, line.c_str());
}

void SharedState::report_damage(const std::string& text) const {
  if (log_) log_(LogLevel::kDamage, text.c_str());
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
